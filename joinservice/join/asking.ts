import type { TraceFactRecord } from '../../internal/records/index.ts';
import type { Applicant } from './policy.ts';

/** A machine that proved its key and hardware. */
export interface Asking extends Applicant {
  readonly pubKeyDer: Uint8Array;
  /** What the machine itself found on its way. */
  readonly facts: readonly TraceFactRecord[];
}
