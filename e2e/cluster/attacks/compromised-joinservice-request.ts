import type { StolenFiles } from './attack-request.ts';

/** What an honest agent asked the join service with, as whoever sits in the join service has it; bytes in base64. */
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

/** On the standard input of e2e/cluster/attacks/compromised-joinservice.ts. */
export interface JoinserviceAttackRequest {
  /** Of the cluster's first control plane: one statement and a later one. */
  readonly older: CapturedStatement;
  readonly newer: CapturedStatement;
  /** A worker, whose record the deputy gives the roles of a control plane. */
  readonly worker: { readonly nodeId: string };
}

export type JoinserviceAttackResult =
  | { readonly attack: string; readonly refusedBy: string; readonly code: string }
  /** What it got: expected only where the threat model says so. */
  | { readonly attack: string; readonly got: string };

/** Whose statement is made, as its agent would make it. */
export interface StatementRequest {
  readonly stolen: Required<StolenFiles>;
  readonly clusterId: string;
  readonly address: string;
  readonly roles: readonly string[];
  readonly timeMs: number;
}
