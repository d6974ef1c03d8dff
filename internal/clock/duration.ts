/** Milliseconds of a minute, an hour and a day. */
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
/** Lifetimes of certificates are configured in minutes and signed in days. */
export const MINUTES_PER_DAY = 24 * 60;
/** How far the clocks of two machines may differ. `notBefore` of certificates is set that much earlier. */
export const CLOCK_TOLERANCE_MS = 5 * MINUTE_MS;

const UNITS_MS = { s: 1_000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS } as const;

/** Below this time span, tenths of a second are shown. */
const TENTHS_BELOW_MS = 9_950;
/** From this number of days on, hours are not shown, as in kubectl. */
const DAYS_ONLY_FROM = 8;

/** A time span as kubectl writes it, two units at most: 412ms, 3.2s, 45s, 5m30s, 3h7m, 6d23h, 89d. Negative is 0ms. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < TENTHS_BELOW_MS) return `${(ms / 1_000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return twoUnits(seconds, 60, 'm', 's');
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return twoUnits(minutes, 60, 'h', 'm');
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  return days < DAYS_ONLY_FROM ? twoUnits(hours, 24, 'd', 'h') : `${days}d`;
}

/** "expires in 6d23h" or "expired 3h ago", for certificates and documents. */
export function formatExpiry(notAfterMs: number, nowMs: number): string {
  const leftMs = notAfterMs - nowMs;
  return leftMs > 0 ? `expires in ${formatDuration(leftMs)}` : `expired ${formatDuration(-leftMs)} ago`;
}

/** "90s", "10m", "2h", "30d" in ms; undefined for anything else. Zero is refused. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = /^([1-9][0-9]{0,5})([smhd])$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS];
}

/** The whole days of a time span; rounded down, also for a negative one. */
export function wholeDays(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

function twoUnits(total: number, per: number, large: string, small: string): string {
  const rest = total % per;
  return `${Math.floor(total / per)}${large}${rest === 0 ? '' : `${rest}${small}`}`;
}
