import type { CheckList } from '../check-list.ts';
import type { QuoteErrorCode } from './errors.ts';
import type { TpmClock } from './rules.ts';

/**
 * Whether the clock `now` can come after the clock `before` of the same TPM. Reset count, restart count and clock only
 * increase, unless the TPM lost power: then `safe` is 0 and the clock may go back by the time that was not yet saved.
 */
export function isClockForward(before: TpmClock, now: TpmClock): boolean {
  if (now.resetCount !== before.resetCount) {
    return now.resetCount > before.resetCount && (!now.safe || now.clockMs >= before.clockMs);
  }
  if (now.restartCount < before.restartCount) return false;
  return now.clockMs >= before.clockMs || (!now.safe && now.restartCount > before.restartCount);
}

/**
 * Checks that the clock of a quote is not behind the clock of the last quote of the same key. Throws AttestationError
 * `quote-clock-…`.
 */
export function checkClock(
  now: TpmClock,
  options: { readonly lastSeen: TpmClock | undefined; readonly requireSafe: boolean },
  checks: CheckList<QuoteErrorCode>,
): void {
  const { lastSeen, requireSafe } = options;
  const actual = describeClock(now);
  if (lastSeen === undefined) checks.skip('quote-clock-backward', { actual });
  else {
    checks.require('quote-clock-backward', isClockForward(lastSeen, now), {
      expected: `not before ${describeClock(lastSeen)}`,
      actual,
    });
  }
  if (requireSafe) checks.require('quote-clock-unsafe', now.safe, { expected: true, actual: now.safe });
  else checks.skip('quote-clock-unsafe', { actual: now.safe });
}

/** The clock of a TPM in words. */
export function describeClock(clock: TpmClock): string {
  const { resetCount, restartCount, clockMs } = clock;
  return `reset ${resetCount}, restart ${restartCount}, ${clockMs} ms`;
}
