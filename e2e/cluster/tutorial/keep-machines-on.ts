import { setTimeout } from 'node:timers/promises';
import type { StoryCluster } from '../harness/story-cluster.ts';

const POLL_MS = 500;

/**
 * Starts each machine that has switched itself off, until it is disposed of. A real machine that reboots comes back by
 * itself; the container of a local machine ends instead.
 */
export function keepMachinesOn(cluster: StoryCluster, machines: readonly string[]): AsyncDisposable {
  const ended = new AbortController();
  const kept = Promise.all(
    machines.map(async (machine) => {
      while (!ended.signal.aborted) {
        if (!(await cluster.isRunning(machine))) await cluster.start(machine);
        await setTimeout(POLL_MS, undefined, { signal: ended.signal }).catch(() => undefined);
      }
    }),
  );
  // Reported by the disposal.
  kept.catch(() => undefined);
  return {
    [Symbol.asyncDispose]: async () => {
      ended.abort();
      await kept;
    },
  };
}
