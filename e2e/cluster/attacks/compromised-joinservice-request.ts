import type { StolenFiles } from './attack-request.ts';

/** The statement of an honest agent, as the attacker who controls the join service has received it; bytes in base64. */
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
  /** Two statements of the first control plane; `older` was created before `newer`. */
  readonly older: CapturedStatement;
  readonly newer: CapturedStatement;
  /** The attacker writes control-plane roles into the record of this worker. */
  readonly worker: { readonly nodeId: string };
}

export type JoinserviceAttackResult =
  | { readonly attack: string; readonly refusedBy: string; readonly code: string }
  /** What it got: expected only where the threat model says so. */
  | { readonly attack: string; readonly got: string };

/** The machine for which a statement is made, as its agent would make it. */
export interface StatementRequest {
  readonly stolen: Required<StolenFiles>;
  readonly clusterId: string;
  readonly address: string;
  readonly roles: readonly string[];
  readonly timeMs: number;
}
