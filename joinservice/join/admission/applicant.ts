import type { JoinRecord, MachineRecord, TraceFactRecord } from '../../../internal/records/index.ts';

/**
 * A machine that requests admission. It has proved its key and the facts in `machine`; the other fields are
 * claims.
 */
export interface Applicant {
  readonly nodeId: string;
  /** SubjectPublicKeyInfo, DER. */
  readonly pubKeyDer: Uint8Array;
  readonly machine: MachineRecord;
  /** Claims of the machine, which the machine can choose freely. */
  readonly claimed: JoinRecord['claimed'];
  /** Facts that the machine reports about its attempts to reach the cluster, for the trace. */
  readonly facts: readonly TraceFactRecord[];
}

/** Whether an operator, and not a policy, made a recorded decision. */
export function isOperatorDecision(
  decision: JoinRecord['decision'],
): decision is NonNullable<JoinRecord['decision']> {
  return decision?.by.startsWith('operator:') === true;
}
