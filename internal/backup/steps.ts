/**
 * The steps of a scheduled backup, in order. The agent logs each one when it begins, as the field `step` of
 * `SCHEDULED_STEP_LOG`. The stories interrupt each one.
 */
export const SCHEDULED_STEPS = [
  'prepare',
  'snapshot-state',
  'snapshot-kubernetes',
  'list-objects',
  'verify-file',
  'restore-state',
  'compare-state',
  'restore-kubernetes',
  'compare-kubernetes',
  'record-proof',
] as const;

/** One of `SCHEDULED_STEPS`. */
export type ScheduledStep = (typeof SCHEDULED_STEPS)[number];

/** The message of the log line with which a step begins. */
export const SCHEDULED_STEP_LOG = 'step of a scheduled backup begins';
