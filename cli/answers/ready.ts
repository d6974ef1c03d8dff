/** The build replaces this file: `.ci/build/answers.ts` writes what the program said, by `keyOf` its arguments. */
export const READY_TEXTS: readonly string[] = [];

/** For each key the place of its text. */
export const READY_KEYS: Readonly<Record<string, number>> = {};
