/** State of the enrolment of a machine. */
export type EnrolmentState = 'New' | 'CreatingCluster' | 'Joining' | 'Resuming' | 'Running' | 'Failed';

/** All allowed transitions. Any other one fails the enrolment. */
export const TRANSITIONS: Readonly<Record<EnrolmentState, readonly EnrolmentState[]>> = {
  New: ['CreatingCluster', 'Joining', 'Resuming', 'Failed'],
  CreatingCluster: ['Running', 'Failed'],
  Joining: ['Running', 'Failed'],
  Resuming: ['Running', 'Failed'],
  Running: [],
  Failed: [],
};

/** A state that is not final. */
export type TransientState = 'New' | 'CreatingCluster' | 'Joining' | 'Resuming';

/** Whether a state is final. */
export function isTerminal(state: EnrolmentState): state is 'Running' | 'Failed' {
  return TRANSITIONS[state].length === 0;
}
