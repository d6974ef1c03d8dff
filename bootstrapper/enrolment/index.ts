/**
 * Enrolment decides once how this machine becomes a member:
 *
 *     New ──▶ CreatingCluster ──▶ Running        New ──▶ Joining ──▶ Running        New ──▶ Resuming ──▶ Running
 *        and from each of them ──▶ Failed(reason, retryable)
 *
 * It hands on one value, the membership; from there first and later nodes share one path.
 */
export { CheckedFile } from './checked-file.ts';
export { Enrolment, type EnrolmentHandlers, type EnrolmentStatus, type Move } from './enrolment.ts';
export { EnrolmentError, enrolmentErrors, type EnrolmentErrorCode } from './errors.ts';
export type { DirectoryEntry, Membership } from './membership.ts';
export { MOVES, type EnrolmentState, type TransientState } from './states.ts';
