import type { DocumentKind } from './bodies.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * How long documents let something new in after they were signed. What lets one machine in is short-lived; what says who is
 * trusted lives as long as owners may be away.
 */
export const DOCUMENT_LIFETIMES_MS: Readonly<Record<DocumentKind, number>> = {
  owners: 3650 * DAY_MS,
  policy: 365 * DAY_MS,
  operators: 365 * DAY_MS,
  grant: 7 * DAY_MS,
  readmission: 30 * DAY_MS,
};
