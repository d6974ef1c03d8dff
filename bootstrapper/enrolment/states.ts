/** Where a machine stands on its way to membership. */
export type EnrolmentState = 'New' | 'CreatingCluster' | 'Joining' | 'Resuming' | 'Running' | 'Failed';

/** Every allowed move. What is not here fails the enrolment. */
export const TRANSITIONS: Readonly<Record<EnrolmentState, readonly EnrolmentState[]>> = {
  New: ['CreatingCluster', 'Joining', 'Resuming', 'Failed'],
  CreatingCluster: ['Running', 'Failed'],
  Joining: ['Running', 'Failed'],
  Resuming: ['Running', 'Failed'],
  Running: [],
  Failed: [],
};

export type TransientState = 'New' | 'CreatingCluster' | 'Joining' | 'Resuming';

export function isTerminal(state: EnrolmentState): state is 'Running' | 'Failed' {
  return TRANSITIONS[state].length === 0;
}
