import type { JoinRecord, MachineRecord, TraceFactRecord } from '../../../internal/records/index.ts';

/** A machine that requests admission: it has proved its key and what `machine` says, and claims the rest. */
export interface Applicant {
  readonly nodeId: string;
  /** SubjectPublicKeyInfo, DER. */
  readonly pubKeyDer: Uint8Array;
  readonly machine: MachineRecord;
  /** Controlled by the machine. */
  readonly claimed: JoinRecord['claimed'];
  /** What the machine reports about its way to the cluster, for the trace. */
  readonly facts: readonly TraceFactRecord[];
}

/** Whether an operator, and not a policy, made a recorded decision. */
export function isOperatorDecision(
  decision: JoinRecord['decision'],
): decision is NonNullable<JoinRecord['decision']> {
  return decision?.by.startsWith('operator:') === true;
}
