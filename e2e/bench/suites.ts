/** The suites of `npm run bench`, the shortest first. */
export const SUITE_NAMES = [
  'artefacts',
  'start',
  'life',
  'atls',
  'attestation',
  'join',
  'curator',
  'node',
  'worker',
  'audit',
  'disk',
  'backup',
  'restore',
  'api',
] as const;
/** One of `SUITE_NAMES`. */
export type SuiteName = (typeof SUITE_NAMES)[number];
