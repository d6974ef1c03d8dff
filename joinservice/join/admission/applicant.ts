import type { TraceFactRecord } from '../../../internal/records/index.ts';
import type { ApplicantClaims } from './decide-join.ts';

/** A machine that proved its key and hardware. */
export interface Applicant extends ApplicantClaims {
  readonly pubKeyDer: Uint8Array;
  /** What the machine itself found on its way. */
  readonly facts: readonly TraceFactRecord[];
}
