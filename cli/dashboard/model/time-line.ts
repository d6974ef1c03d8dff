import { DAY_MS, HOUR_MS } from '../../../internal/clock/index.ts';

/** The end of the time line: CAs are valid for ten years. */
const LAST_MS = 3650 * DAY_MS;
const LABELS = [
  { label: 'now', ms: 0 },
  { label: '1d', ms: DAY_MS },
  { label: '7d', ms: 7 * DAY_MS },
  { label: '30d', ms: 30 * DAY_MS },
  { label: '1y', ms: 365 * DAY_MS },
  { label: '10y', ms: LAST_MS },
] as const;

/**
 * Where a time from now is on the time line: 0 for now and before, 1 for ten years and later. Logarithmic, because the
 * certificates of nodes last days, and CAs years.
 */
export function positionOf(fromNowMs: number): number {
  const scale = (ms: number): number => Math.log1p(Math.max(0, ms) / (6 * HOUR_MS));
  return Math.min(1, scale(fromNowMs) / scale(LAST_MS));
}

/** The labels of the time line and their positions. */
export function axisLabels(): readonly { readonly label: string; readonly position: number }[] {
  return LABELS.map(({ label, ms }) => ({ label, position: positionOf(ms) }));
}
