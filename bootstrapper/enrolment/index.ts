/**
 * Enrolment: makes this machine a member of a cluster. Each run of the agent decides once which way it takes:
 *
 *     New ──▶ CreatingCluster ──▶ Running        New ──▶ Joining ──▶ Running        New ──▶ Resuming ──▶ Running
 *        and from each of them ──▶ Failed(reason, retryable)
 *
 * Its result is the membership. From there on, the first node and later nodes take the same path.
 */
export { createEnrolmentHandlers } from './enrolment-handlers.ts';
export { Enrolment, type EnrolmentStatus } from './enrolment.ts';
export { refuseLostMachineKey } from './resume-point.ts';
export { enrolmentRunnable } from './enrolment-runnable.ts';
