import { childSignal } from '../cleanup/index.ts';
import type { Readable, Watcher } from '../event/index.ts';
import { Stopped, type Runnable, type Scope } from './runnable.ts';

/** The decision that a worker's pure `plan` function makes from its input. */
export type Plan<C> =
  /** Nothing is to run yet. `why` is shown as the worker's note. */
  | { readonly kind: 'wait'; readonly why: string }
  /** Keep the workload as it is. Only valid while it runs. */
  | { readonly kind: 'keep' }
  | { readonly kind: 'start'; readonly config: C }
  /** Like `wait`, but also tear down what a former run left. */
  | { readonly kind: 'stop'; readonly why: string };

/** A role worker: its input, its plan, and how its workload starts. */
interface LauncherOptions<I, C> {
  readonly input: Readable<I>;
  /** Pure. `running`: whether this run has begun to start the workload. */
  readonly plan: (input: I, running: boolean) => Plan<C>;
  /**
   * Starts the workload and returns; long-running parts are `scope.run` children. The launcher calls `healthy()`
   * afterwards. `scope.signal` also fires when the plan no longer wants the workload.
   */
  readonly start: (scope: Scope, config: C) => Promise<void>;
  /**
   * Stops the resources that outlive a run of this worker, such as a systemd unit. Called when the plan says `stop`,
   * before the next plan. Must be idempotent.
   */
  readonly tearDown?: (scope: Scope) => Promise<void>;
}

/**
 * The runnable of a role worker: wait → start → healthy → watch → restart.
 *
 * | plan    | nothing runs         | running (or starting)                |
 * |---------|----------------------|--------------------------------------|
 * | `wait`  | wait, `why` shown    | requested restart, which stops it    |
 * | `stop`  | tear down, then wait | requested restart, which stops it    |
 * | `start` | start                | keep: a new configuration is ignored |
 * | `keep`  | error                | keep                                 |
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
      // The next run must not begin before a start in progress has ended.
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
  let isTornDown = false;
  scope.waiting('first input');
  for (;;) {
    const decision = plan(await watcher.next(scope.signal), false);
    if (decision.kind === 'start') return decision.config;
    if (decision.kind === 'keep')
      throw new Error(`${scope.path}: plan() returned "keep", but no workload runs`);
    if (decision.kind === 'stop' && !isTornDown) await retire?.(scope);
    isTornDown = decision.kind === 'stop';
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
