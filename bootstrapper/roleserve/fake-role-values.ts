import { createEventValues } from './role-values.ts';

/** Values that a test can read and set. */
export type FakeRoleValues = ReturnType<typeof createEventValues>;

export const createFakeRoleValues = createEventValues;
