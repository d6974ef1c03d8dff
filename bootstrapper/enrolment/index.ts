/**
 * Enrolment decides once how this machine becomes a member:
 *
 *     New ──▶ CreatingCluster ──▶ Running        New ──▶ Joining ──▶ Running        New ──▶ Resuming ──▶ Running
 *        and from each of them ──▶ Failed(reason, retryable)
 *
 * It hands on one value, the membership; from there first and later nodes share one path.
 */
export { ChecksummedFile } from './checksummed-file.ts';
export { Enrolment, type EnrolmentHandlers, type EnrolmentStatus, type Transition } from './enrolment.ts';
export { EnrolmentError, enrolmentErrors, type EnrolmentErrorCode } from './errors.ts';
export type { DirectoryEntry, Membership } from './membership.ts';
export { TRANSITIONS, type EnrolmentState, type TransientState } from './states.ts';
