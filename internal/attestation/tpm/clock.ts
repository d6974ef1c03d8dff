import type { CheckList } from '../check-list.ts';
import type { QuoteErrorCode } from './errors.ts';
import type { TpmClock } from './rules.ts';

/**
 * Whether a quote may come after the one last seen from the same key. Reset and restart counts only rise, and the
 * clock with them, unless power was lost: then the TPM says `safe = 0` and may go back by what it had not yet written.
 */
export function isClockForward(before: TpmClock, now: TpmClock): boolean {
  if (now.resetCount !== before.resetCount) {
    return now.resetCount > before.resetCount && (!now.safe || now.clockMs >= before.clockMs);
  }
  if (now.restartCount < before.restartCount) return false;
  return now.clockMs >= before.clockMs || (!now.safe && now.restartCount > before.restartCount);
}

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

function describeClock(clock: TpmClock): string {
  const { resetCount, restartCount, clockMs } = clock;
  return `reset ${resetCount}, restart ${restartCount}, ${clockMs} ms`;
}
