/**
 * Enrolment decides once how this machine becomes a member:
 *
 *     New ──▶ CreatingCluster ──▶ Running        New ──▶ Joining ──▶ Running        New ──▶ Resuming ──▶ Running
 *        and from each of them ──▶ Failed(reason, retryable)
 *
 * It hands on one value, the membership; from there first and later nodes share one path.
 */
export { createEnrolmentHandlers } from './enrolment-handlers.ts';
export { Enrolment, type EnrolmentHandlers, type EnrolmentStatus, type Transition } from './enrolment.ts';
export { EnrolmentError, type EnrolmentErrorCode, enrolmentErrors } from './errors.ts';
export { refuseLostMachineKey } from './resume-point.ts';
export { type EnrolmentState, TRANSITIONS, type TransientState } from './states.ts';
export { untilFileChanges } from './until-file-changes.ts';
