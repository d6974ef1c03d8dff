import type { StolenFiles } from './attack-request.ts';

/**
 * The statement and evidence with which an honest agent requested its ticket, as the attacker who controls
 * the join service has received them; bytes in base64.
 */
export interface CapturedStatement {
  readonly nodeId: string;
  readonly address: string;
  readonly roles: readonly string[];
  readonly kubeletClientCsr: string;
  readonly kubeletServingCsr: string;
  readonly sealingPublicKey: string;
  readonly session: string;
  readonly timeMs: number;
  readonly signature: string;
  readonly evidence: readonly { readonly variant: string; readonly document: string }[];
}

/** The standard input of e2e/cluster/attacks/compromised-joinservice.ts. */
export interface JoinserviceAttackRequest {
  /** Two ticket requests of the first control plane; `older` was created before `newer`. */
  readonly older: CapturedStatement;
  readonly newer: CapturedStatement;
  /** The attacker writes control-plane roles into the record of this worker. */
  readonly worker: { readonly nodeId: string };
}

export type JoinserviceAttackResult =
  | { readonly attack: string; readonly refusedBy: string; readonly code: string }
  /** What it got: expected only where the threat model says so. */
  | { readonly attack: string; readonly got: string };

/** The machine for which a ticket request is created, and its content. */
export interface StatementRequest {
  readonly stolen: Required<StolenFiles>;
  readonly clusterId: string;
  readonly address: string;
  readonly roles: readonly string[];
  readonly timeMs: number;
}
