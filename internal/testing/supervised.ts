import { supervise, type Runnable, type RunnableSnapshot, type TreeSnapshot } from '../supervisor/index.ts';
import type { LogRecord } from '../logging/index.ts';
import { FakeClock, settle } from './fake-clock.ts';
import { createMemoryLogger } from './memory-logger.ts';

/**
 * A supervisor tree under test. Disposing it stops the tree, and fails the test when a runnable or a timer
 * is left.
 */
export interface SupervisedTree extends AsyncDisposable {
  readonly clock: FakeClock;
  readonly records: readonly LogRecord[];
  readonly finished: Promise<void>;
  tree(): TreeSnapshot;
  /** The snapshot of one runnable; throws when no runnable has this path. */
  at(path: string): RunnableSnapshot;
  retryNow(): void;
  stop(): void;
}

export interface SupervisedOptions {
  readonly clock?: FakeClock;
  /** Random numbers; default: the middle of the jitter, which gives pauses of 500, 750, 1125 … ms. */
  readonly random?: () => number;
  readonly graceMs?: number;
}

/** Runs `root` under a real supervisor with a fake clock. */
export function superviseForTest(root: Runnable, options: SupervisedOptions = {}): SupervisedTree {
  const { clock = new FakeClock(), random = () => 0.5, graceMs = 5000 } = options;
  const { log, records } = createMemoryLogger();
  const controller = new AbortController();
  const { finished, tree, retryNow } = supervise({
    root,
    log,
    clock,
    random,
    graceMs,
    signal: controller.signal,
  });
  const outcome = finished.then(
    () => undefined,
    (error: unknown) => error,
  );
  return {
    clock,
    records,
    finished,
    tree,
    retryNow,
    at(path) {
      const found = tree().find((each) => each.path === path);
      if (found === undefined) throw new Error(`no ${path} in ${JSON.stringify(tree())}`);
      return found;
    },
    stop: () => controller.abort(new Error('the test is over')),
    async [Symbol.asyncDispose]() {
      controller.abort(new Error('the test is over'));
      await settle();
      await clock.advance(2 * graceMs);
      const error = await outcome;
      if (error !== undefined) throw error as Error;
      if (clock.sleeping > 0) throw new Error(`${clock.sleeping} timers survived the tree`);
    },
  };
}
