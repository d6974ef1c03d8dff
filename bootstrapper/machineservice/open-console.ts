import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { noChallengeLine } from './console.ts';
import type { ConsoleEntry } from './locked-disk.ts';

/** Between two tries to read what the console needs. */
const PAUSE_MS = 10_000;
const NO_PART =
  'the record of the disk has none (formatted by an earlier release, or last recovered with other recipients)';

/** Ports (injected dependencies) of `openConsole()`. */
interface FinderPorts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Makes a challenge; undefined: the record of the disk has no data for it. Rejects if the data cannot be read now. */
  find(signal: AbortSignal): Promise<ConsoleEntry | undefined>;
  /** Prints lines on the console, below the reason why the disk is locked. */
  print(lines: readonly string[], signal: AbortSignal): Promise<void>;
}

/**
 * Finds the way in at the console, and prints the challenge or why there is none. If the data for it cannot be read, tries again until the signal fires.
 * @returns undefined: the record of the disk has no data for it
 */
export async function openConsole(
  ports: FinderPorts,
  signal: AbortSignal,
): Promise<ConsoleEntry | undefined> {
  const { clock, log } = ports;
  for (let told: string | undefined; ; await clock.sleep(PAUSE_MS, signal)) {
    const found = await ports.find(signal).catch((error: unknown) => describeError(error));
    signal.throwIfAborted();
    if (typeof found === 'object') {
      // Above a login prompt, the challenge is a part of this text. Consoles without logins show it by themselves.
      await ports.print(found.sources.areConsoles ? [] : found.lines, signal);
      return found;
    }
    const reason = found ?? NO_PART;
    if (reason !== told) {
      log.warn('no recovery at the console', { reason });
      await ports.print([noChallengeLine(reason)], signal);
    }
    if (found === undefined) return undefined;
    told = reason;
  }
}
