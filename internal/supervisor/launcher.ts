import { childSignal } from '../cleanup/index.ts';
import type { Readable, Watcher } from '../event/index.ts';
import { Stopped, type Runnable, type Scope } from './runnable.ts';

/** What a worker's pure heart decides from its inputs. */
export type Plan<C> =
  /** Not yet, or not here: nothing is to run. `why` is shown as the worker's note. */
  | { readonly kind: 'wait'; readonly why: string }
  /** Go on as it is. Only an answer while the workload runs. */
  | { readonly kind: 'keep' }
  | { readonly kind: 'start'; readonly config: C }
  /** Like `wait`, said of a workload that is no longer wanted. */
  | { readonly kind: 'stop'; readonly why: string };

export interface LauncherOptions<I, C> {
  readonly input: Readable<I>;
  /** Pure. `running` says whether a start was made in this life. */
  readonly plan: (input: I, running: boolean) => Plan<C>;
  /**
   * Brings the workload up and returns: long-lived parts are `scope.run` children. The launcher says
   * `healthy()` afterwards. `scope.signal` also fires when the workload is no longer wanted.
   */
  readonly start: (scope: Scope, config: C) => Promise<void>;
  /**
   * Takes down what outlives a life of this worker (a systemd unit): called when the plan says `stop`, before
   * anything else is planned. Must be fine when there is nothing to take down.
   */
  readonly tearDown?: (scope: Scope) => Promise<void>;
}

/**
 * The life of every role worker, written once: wait → start → healthy → watch → restart.
 *
 * | plan    | nothing runs      | running (or starting)            |
 * |---------|-------------------|----------------------------------|
 * | `wait`  | wait, `why` shown | calm restart, so all of it stops |
 * | `stop`  | retire, then wait | calm restart, so all of it stops |
 * | `start` | start             | keep: only presence counts       |
 * | `keep`  | loud error        | keep                             |
 */
export function launcher<I, C>(options: LauncherOptions<I, C>): Runnable {
  return async (scope) => {
    using watcher = options.input.watch();
    const config = await untilWanted(options, scope, watcher);
    using work = childSignal(scope.signal);
    scope.waiting('starting');
    const started = Promise.try(() => options.start({ ...scope, signal: work.signal }, config));
    const unwanted = untilUnwanted(options, watcher, work.signal);
    try {
      const why = await Promise.race([started.then(() => undefined), unwanted]);
      if (why !== undefined) scope.restart(why);
      scope.healthy();
      scope.restart(await unwanted);
    } finally {
      // The next life may not begin before a start under way has ended.
      work.abort(new Stopped(`${scope.path} is no longer wanted`));
      await Promise.allSettled([started, unwanted]);
    }
  };
}

async function untilWanted<I, C>(
  { plan, tearDown: retire }: LauncherOptions<I, C>,
  scope: Scope,
  watcher: Watcher<I>,
): Promise<C> {
  let retired = false;
  scope.waiting('first input');
  for (;;) {
    const decision = plan(await watcher.next(scope.signal), false);
    if (decision.kind === 'start') return decision.config;
    if (decision.kind === 'keep') throw new Error(`planning ${scope.path}: "keep" although nothing runs`);
    if (decision.kind === 'stop' && !retired) await retire?.(scope);
    retired = decision.kind === 'stop';
    scope.waiting(decision.why);
  }
}

async function untilUnwanted<I, C>(
  { plan }: LauncherOptions<I, C>,
  watcher: Watcher<I>,
  signal: AbortSignal,
): Promise<string> {
  for (;;) {
    const decision = plan(await watcher.next(signal), true);
    if (decision.kind === 'wait' || decision.kind === 'stop') return decision.why;
  }
}
