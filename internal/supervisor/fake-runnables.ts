import { untilAborted } from '../cleanup/index.ts';
import type { Runnable, Scope } from './runnable.ts';

/** Becomes healthy and runs until its signal fires. */
export const wellBehaved: Runnable = async ({ signal, healthy }) => {
  healthy();
  await untilAborted(signal);
};

/** A runnable whose runs a test observes and fails. */
export function controlledRunnable(): {
  readonly runs: Scope[];
  readonly run: Runnable;
  fail(error?: unknown): void;
} {
  const runs: Scope[] = [];
  let fail: (error: unknown) => void = () => undefined;
  return {
    runs,
    run: (scope) => {
      runs.push(scope);
      scope.healthy();
      const { promise, reject } = Promise.withResolvers<never>();
      fail = reject;
      return Promise.race([promise, untilAborted(scope.signal)]);
    },
    fail: (error = new Error('broken')) => fail(error),
  };
}

/** Starts its children, each alone or as one group, and runs until it is stopped. */
export const parentOf =
  (children: Readonly<Record<string, Runnable>>, together = false): Runnable =>
  async (scope) => {
    if (together) scope.runGroup(children);
    else for (const [name, child] of Object.entries(children)) scope.run(name, child);
    scope.healthy();
    await untilAborted(scope.signal);
  };
