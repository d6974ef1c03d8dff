import { createEventValues } from './role-values.ts';

/** Values that a test reads and sets as it likes. */
export type FakeRoleValues = ReturnType<typeof createEventValues>;

export const createFakeRoleValues = createEventValues;
