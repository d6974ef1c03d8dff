import { formatDuration, type Clock } from '../clock/index.ts';
import type { Logger } from '../logging/index.ts';
import type { PastRun } from './restart-backoff.ts';
import { SupervisorError } from './errors.ts';
import { createGroup, createRun, subtree, type Group, type Run, type TreeNode } from './node.ts';
import { describeFailure, outcomeOf, type RunEnd, type Outcome } from './outcome.ts';
import { Stopped, type Runnable } from './runnable.ts';
import { createScope, type ScopeHost } from './scope.ts';
import { snapshotOf, type TreeSnapshot } from './snapshot.ts';
import { assertMove, type RunnableState } from './state.ts';

/** The root runnable of a tree, its logger and clock, and its time limits. */
export interface SupervisorOptions {
  readonly root: Runnable;
  /** The parent of all loggers. The root runnable logs as its child `root`. */
  readonly log: Logger;
  readonly clock: Clock;
  /** Numbers in [0, 1), for jitter. */
  readonly random: () => number;
  /** How long a runnable may take to end after its signal fired, ms. */
  readonly graceMs: number;
  /** Stops the whole tree. */
  readonly signal: AbortSignal;
}

/** A running tree. */
export interface Supervision {
  /**
   * Resolves when the signal has fired and all runnables have ended, or when the whole tree is done. Rejects with a
   * SupervisorError that names the runnables that ignored their signal; the program should then exit with an error.
   */
  readonly finished: Promise<void>;
  readonly tree: () => TreeSnapshot;
  /** Ends all pauses after failures at once, for example because an operator may have fixed the cause. */
  readonly retryNow: () => void;
}

/** Starts the tree below `root` and restarts failed runnables. */
export function supervise(options: SupervisorOptions): Supervision {
  const supervisor = new Supervisor(options);
  return {
    finished: supervisor.finished,
    tree: () => supervisor.tree(),
    retryNow: () => supervisor.retryNow(),
  };
}

/** A constant abort reason: an Error with a stack per run would be the costliest part of a run. */
const ENDED = 'ended';

/** The only writer of the tree. Transitions are synchronous; runs, pauses and grace periods take time. */
class Supervisor implements ScopeHost {
  readonly finished: Promise<void>;
  readonly #options: SupervisorOptions;
  readonly #root: Group;
  readonly #stragglers = new Set<string>();
  readonly #end = Promise.withResolvers<void>();
  #stopping = false;

  constructor(options: SupervisorOptions) {
    const { signal, log, root } = options;
    this.#options = options;
    this.#root = this.#createGroup(log, { root });
    const onAbort = (): void => this.#stop('the program stops');
    this.finished = this.#end.promise.finally(() => signal.removeEventListener('abort', onAbort));
    this.#start(this.#root);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  }

  tree(): TreeSnapshot {
    return snapshotOf(this.#root);
  }

  retryNow(): void {
    if (!this.#stopping) this.#retryNow(this.#root);
  }

  addGroup(parent: TreeNode, runnables: Readonly<Record<string, Runnable>>): void {
    const group = this.#createGroup(parent.log, runnables);
    parent.run.groups.push(group);
    const { signal } = parent.run.controller;
    if (signal.aborted) this.#cancel(group, signal.reason);
    this.#start(group);
  }

  recordHealthy(node: TreeNode): void {
    node.run.healthyMs = this.#options.clock.monotonicMs();
    node.note = undefined;
    this.#transition(node, 'healthy');
  }

  #createGroup(parentLog: Logger, runnables: Readonly<Record<string, Runnable>>): Group {
    const { clock, random } = this.#options;
    return createGroup(parentLog, runnables, {
      random,
      nowMs: clock.nowMs(),
      monotonicMs: clock.monotonicMs(),
    });
  }

  #start(group: Group): void {
    for (const node of group.members) void this.#run(node, node.run);
  }

  /** One run from start to end. A runnable that is canceled before its start never runs. */
  async #run(node: TreeNode, run: Run): Promise<void> {
    const { signal } = run.controller;
    let result: RunEnd['result'] = { kind: 'returned' };
    await Promise.resolve(); // a child must not run inside the call of its parent
    try {
      if (!signal.aborted) await node.runnable(createScope(this, node, run));
    } catch (error) {
      result = { kind: 'threw', error };
    }
    run.running = false;
    run.ended.abort(ENDED);
    this.#recordEnd(node, run, outcomeOf({ signal, saidDone: run.saidDone, result }));
  }

  /** Records how a run ended, stops its group, then restarts what can be restarted. */
  #recordEnd(node: TreeNode, run: Run, outcome: Outcome): void {
    const past = { ...run, endedMs: this.#options.clock.monotonicMs() };
    node.note = undefined;
    this.#transition(node, outcome.kind === 'restart' ? 'canceled' : outcome.kind);
    if (outcome.kind === 'restart') {
      run.pauseMs = node.backoff.afterWantedRestart(past);
      node.log.info('restarting', { reason: outcome.reason, pauseMs: run.pauseMs });
      this.#cancel(node.group, new Stopped(`${node.path} restarts: ${outcome.reason}`));
    }
    if (outcome.kind === 'dead') this.#recordFailure(node, past, outcome.error);
    this.#restartEnded(this.#root);
    this.#finishIfEnded();
  }

  #recordFailure(node: TreeNode, past: PastRun, error: unknown): void {
    const facts = describeFailure(error);
    node.lastError = facts.error;
    node.failedMs = this.#options.clock.nowMs();
    if (node.run.controller.signal.aborted) {
      // Logged only: the earlier failure that stopped the group determines the pause.
      node.log.warn('failed while stopping', facts);
      return;
    }
    node.run.pauseMs = node.backoff.afterFailure(past);
    node.log.error('failed', { ...facts, pauseMs: node.run.pauseMs });
    this.#cancel(node.group, new Stopped(`${node.path} failed: ${facts.error}`));
  }

  /** Aborts a group and everything below it. */
  #cancel(group: Group, reason: unknown): void {
    group.pause?.controller.abort(reason);
    for (const node of group.members) {
      const { run } = node;
      if (!run.controller.signal.aborted) {
        run.controller.abort(reason);
        if (run.running) void this.#watchGrace(node, run);
      }
      for (const below of run.groups) this.#cancel(below, reason);
    }
  }

  /**
   * Stops the whole tree when a run does not end within the grace period, because JavaScript cannot kill a
   * run.
   */
  async #watchGrace({ path, log }: TreeNode, run: Run): Promise<void> {
    const { clock, graceMs } = this.#options;
    if (!(await slept(clock, graceMs, run.ended.signal))) return;
    this.#stragglers.add(path);
    log.error('still running after it was asked to stop', { graceMs });
    this.#stop(`${path} still runs ${formatDuration(graceMs)} after its abort signal`);
  }

  /** Restarts the topmost groups that were stopped and have ended with everything below them. */
  #restartEnded(group: Group): void {
    if (this.#stopping || group.pause !== undefined) return;
    if (!group.members.some(({ run }) => run.controller.signal.aborted)) {
      for (const node of group.members) node.run.groups.forEach((below) => this.#restartEnded(below));
    } else if (![...subtree(group)].some(({ run }) => run.running)) {
      const pauseMs = Math.max(...group.members.map(({ run }) => run.pauseMs));
      if (pauseMs === 0) this.#restart(group);
      else void this.#restartAfter(group, pauseMs);
    }
  }

  async #restartAfter(group: Group, pauseMs: number): Promise<void> {
    const { clock } = this.#options;
    const controller = new AbortController();
    const pause = { controller, untilMs: clock.nowMs() + pauseMs };
    group.pause = pause;
    const over = await slept(clock, pauseMs, controller.signal);
    if (group.pause !== pause) return; // retryNow() has already restarted the group
    group.pause = undefined;
    if (over) this.#restart(group);
  }

  #retryNow(group: Group): void {
    const { pause } = group;
    if (pause === undefined) {
      for (const node of group.members) node.run.groups.forEach((below) => this.#retryNow(below));
      return;
    }
    group.pause = undefined;
    pause.controller.abort(ENDED);
    for (const node of group.members) node.backoff.reset();
    this.#restart(group);
  }

  #restart(group: Group): void {
    for (const node of group.members) {
      node.run = createRun(this.#options.clock.monotonicMs());
      node.restarts++;
      this.#transition(node, 'new');
    }
    this.#start(group);
  }

  #stop(reason: string): void {
    this.#stopping = true;
    this.#cancel(this.#root, new Stopped(reason));
    this.#finishIfEnded();
  }

  #finishIfEnded(): void {
    const nodes = [...subtree(this.#root)];
    const waitedFor = nodes.filter(({ path, run }) => run.running && !this.#stragglers.has(path));
    if (waitedFor.length > 0) return;
    if (!this.#stopping && nodes.some(({ state }) => state !== 'done')) return;
    if (this.#stragglers.size === 0) this.#end.resolve();
    else this.#end.reject(stragglerError([...this.#stragglers]));
  }

  #transition(node: TreeNode, to: RunnableState): void {
    assertMove(node.path, node.state, to);
    node.state = to;
    node.sinceMs = this.#options.clock.nowMs();
  }
}

function stragglerError(paths: readonly string[]): SupervisorError {
  const message = `stopping the program: ${paths.join(', ')} still running after the grace period`;
  return new SupervisorError('supervisor-straggler', message, { details: { paths } });
}

/** Whether the full time passed before the signal fired. */
async function slept(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  await clock.sleep(ms, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return !signal.aborted;
}
