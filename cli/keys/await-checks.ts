import type { CommandContext } from '../app/command.ts';
import { KeysError } from './errors.ts';

const POLL_MS = 1_000;
/**
 * Time limit of the checks. Control planes restart one after the other to get new keys, and do not respond
 * meanwhile.
 */
const TIMEOUT_MS = 3 * 60_000;

/** One condition that must hold after a node was removed or keys were replaced. */
export interface RemovalCheck {
  readonly what: string;
  readonly ok: boolean;
  /** The value that the check found. */
  readonly actual: string;
  /** False if the check passed without a test, for example because the node does not respond. */
  readonly isTested?: false;
}

/** Repeats `run` until all of its checks have passed. @throws KeysError `keys-still-accepted` after three minutes */
export async function awaitChecks<T extends { readonly proofs: readonly RemovalCheck[] }>(
  { host, ports: { clock }, signal }: CommandContext,
  {
    step,
    doing,
  }: { readonly step: { readonly name: string; readonly title: string }; readonly doing: string },
  run: () => Promise<T>,
): Promise<T> {
  return host.step(step.name, step.title, async (progress) => {
    const deadlineMs = clock.monotonicMs() + TIMEOUT_MS;
    for (;;) {
      const result = await run();
      const open = result.proofs.filter(({ ok }) => !ok);
      if (open.length === 0) return result;
      const text = open.map(({ what, actual }) => `${what}: ${actual}`).join('; ');
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new KeysError('keys-still-accepted', `${doing}: ${text}`, { details: { ...result } });
      await clock.sleep(POLL_MS, signal);
    }
  });
}
