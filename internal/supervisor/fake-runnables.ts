import { untilAborted } from '../testing/until-aborted.ts';
import type { Runnable, Scope } from './runnable.ts';

/** A runnable that lives as a good one should. */
export const wellBehaved: Runnable = async ({ signal, healthy }) => {
  healthy();
  await untilAborted(signal);
};

/** A runnable whose lives a test counts and ends by hand. */
export function controlledRunnable(): {
  readonly lives: Scope[];
  readonly run: Runnable;
  fail(error?: unknown): void;
} {
  const lives: Scope[] = [];
  let fail: (error: unknown) => void = () => undefined;
  return {
    lives,
    run: (scope) => {
      lives.push(scope);
      scope.healthy();
      const { promise, reject } = Promise.withResolvers<never>();
      fail = reject;
      return Promise.race([promise, untilAborted(scope.signal)]);
    },
    fail: (error = new Error('broken')) => fail(error),
  };
}

/** Starts its children, each alone or all together, and lives until it is stopped. */
export const parentOf =
  (children: Readonly<Record<string, Runnable>>, together = false): Runnable =>
  async (scope) => {
    if (together) scope.runGroup(children);
    else for (const [name, child] of Object.entries(children)) scope.run(name, child);
    scope.healthy();
    await untilAborted(scope.signal);
  };
