/** Prebuilt texts. The build replaces this file (`.ci/build/answers.ts`). */
export const READY_TEXTS: readonly string[] = [];

/** The index of the text in READY_TEXTS, by `keyOf` the arguments. */
export const READY_KEYS: Readonly<Record<string, number>> = {};
