/**
 * Enrolment: how this machine becomes a member of a cluster, decided once in each run of the agent:
 *
 *     New ──▶ CreatingCluster ──▶ Running        New ──▶ Joining ──▶ Running        New ──▶ Resuming ──▶ Running
 *        and from each of them ──▶ Failed(reason, retryable)
 *
 * Its result is the membership. From there on, the first node and later nodes take the same path.
 */
export { createEnrolmentHandlers } from './enrolment-handlers.ts';
export { Enrolment, type EnrolmentHandlers, type EnrolmentStatus, type Transition } from './enrolment.ts';
export { type EnrolmentErrorCode } from './errors.ts';
export { refuseLostMachineKey } from './resume-point.ts';
export { type EnrolmentState, type TransientState } from './states.ts';
export { untilFileChanges } from './until-file-changes.ts';
