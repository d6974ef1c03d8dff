import { CodedError, describeError, findCoded } from '../../../internal/errors/index.ts';
import type { CommandContext } from '../../app/command.ts';

/** A cluster changes slowly, and each reading is one connection. */
const EVERY_MS = 2_000;

/**
 * Shows a result again and again until the user interrupts. A failure after the first result is a warning if a later attempt may
 * succeed: a control plane may restart.
 */
export async function watchResult(
  context: CommandContext,
  show: () => Promise<unknown>,
  everyMs = EVERY_MS,
): Promise<never> {
  const { host, ports, signal } = context;
  host.beginScreen();
  await show();
  let failed: string | undefined;
  for (;;) {
    await ports.clock.sleep(everyMs, signal);
    try {
      await show();
      failed = undefined;
    } catch (error) {
      signal.throwIfAborted();
      if (!isTemporary(error)) throw error;
      const text = describeError(error);
      if (text !== failed) host.warn('watch-failed', `${text}; trying again`);
      failed = text;
    }
  }
}

function isTemporary(error: unknown): boolean {
  return error instanceof CodedError && findCoded(error)?.retryable === true;
}
