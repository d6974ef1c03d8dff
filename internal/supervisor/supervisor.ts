import type { Clock } from '../clock/index.ts';
import type { Logger } from '../logging/index.ts';
import type { PastRun } from './restart-backoff.ts';
import { SupervisorError } from './errors.ts';
import { createGroup, createRun, subtree, type Group, type Run, type TreeNode } from './node.ts';
import { describeFailure, outcomeOf, type RunEnd, type Outcome } from './outcome.ts';
import { Stopped, type Runnable } from './runnable.ts';
import { createScope, type ScopeHost } from './scope.ts';
import { snapshotOf, type TreeSnapshot } from './snapshot.ts';
import { assertMove, type RunnableState } from './state.ts';

export interface SupervisorOptions {
  readonly root: Runnable;
  /** The root speaks as its child `root`. */
  readonly log: Logger;
  readonly clock: Clock;
  /** Numbers in [0, 1), for jitter. */
  readonly random: () => number;
  /** How long a runnable may take to end after its signal fired. */
  readonly graceMs: number;
  /** Stops the whole tree. */
  readonly signal: AbortSignal;
}

export interface Supervision {
  /**
   * Resolves when the signal fired and all has ended, or when the whole tree is done. Rejects with a
   * SupervisorError that names who ignored its signal; the caller then exits non-zero.
   */
  readonly finished: Promise<void>;
  readonly tree: () => TreeSnapshot;
  /** Whatever waits out a pause after a failure starts now: somebody has come who may have removed the cause. */
  readonly retryNow: () => void;
}

/** Starts the tree below `root` and keeps it running. */
export function supervise(options: SupervisorOptions): Supervision {
  const supervisor = new Supervisor(options);
  return {
    finished: supervisor.finished,
    tree: () => supervisor.tree(),
    retryNow: () => supervisor.retryNow(),
  };
}

/** One reason for all: an error with a stack for each life is the costliest part of a life. */
const ENDED = 'ended';

/** The one writer of the tree. Its moves are synchronous; only lives, pauses and grace take time. */
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
    if (!this.#stopping) this.#hurry(this.#root);
  }

  addGroup(parent: TreeNode, runnables: Readonly<Record<string, Runnable>>): void {
    const group = this.#createGroup(parent.log, runnables);
    parent.run.groups.push(group);
    const { signal } = parent.run.controller;
    if (signal.aborted) this.#cancel(group, signal.reason);
    this.#start(group);
  }

  markHealthy(node: TreeNode): void {
    node.run.healthyMs = this.#options.clock.monotonicMs();
    node.note = undefined;
    this.#move(node, 'healthy');
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
    for (const node of group.members) void this.#live(node, node.run);
  }

  /** One life from start to end; what was canceled before it began never runs. */
  async #live(node: TreeNode, life: Run): Promise<void> {
    const { signal } = life.controller;
    let result: RunEnd['result'] = { kind: 'returned' };
    await Promise.resolve(); // a child never runs inside its parent's call
    try {
      if (!signal.aborted) await node.runnable(createScope(this, node, life));
    } catch (error) {
      result = { kind: 'threw', error };
    }
    life.running = false;
    life.ended.abort(ENDED);
    this.#bury(node, life, outcomeOf({ signal, saidDone: life.saidDone, result }));
  }

  /** Records how a life ended, takes down what falls with it, then looks what can start again. */
  #bury(node: TreeNode, life: Run, outcome: Outcome): void {
    const past = { ...life, endedMs: this.#options.clock.monotonicMs() };
    node.note = undefined;
    this.#move(node, outcome.kind === 'restart' ? 'canceled' : outcome.kind);
    if (outcome.kind === 'restart') {
      life.pauseMs = node.backoff.afterWantedRestart(past);
      node.log.info('restarting', { reason: outcome.reason, pauseMs: life.pauseMs });
      this.#cancel(node.group, new Stopped(`${node.path} restarts: ${outcome.reason}`));
    }
    if (outcome.kind === 'dead') this.#noteDeath(node, past, outcome.error);
    this.#sweep(this.#root);
    this.#finishIfEnded();
  }

  #noteDeath(node: TreeNode, past: PastRun, error: unknown): void {
    const facts = describeFailure(error);
    node.lastError = facts.error;
    if (node.run.controller.signal.aborted) {
      // Worth a line, but not why the group falls: what took it down sets the pause.
      node.log.warn('failed while stopping', facts);
      return;
    }
    node.run.pauseMs = node.backoff.afterFailure(past);
    node.log.error('failed', { ...facts, pauseMs: node.run.pauseMs });
    this.#cancel(node.group, new Stopped(`${node.path} failed: ${facts.error}`));
  }

  /** Asks a group and everything below it to stop. */
  #cancel(group: Group, reason: unknown): void {
    group.pause?.controller.abort(reason);
    for (const node of group.members) {
      const { run: life } = node;
      if (!life.controller.signal.aborted) {
        life.controller.abort(reason);
        if (life.running) void this.#watchGrace(node, life);
      }
      for (const below of life.groups) this.#cancel(below, reason);
    }
  }

  /** Names a life that goes on after it was asked to stop. It cannot be ended from here, so all must end. */
  async #watchGrace({ path, log }: TreeNode, life: Run): Promise<void> {
    const { clock, graceMs } = this.#options;
    if (!(await slept(clock, graceMs, life.ended.signal))) return;
    this.#stragglers.add(path);
    log.error('still running after it was asked to stop', { graceMs });
    this.#stop(`${path} ignores its signal`);
  }

  /** Starts again the largest groups that fell and have ended with all that was below them. */
  #sweep(group: Group): void {
    if (this.#stopping || group.pause !== undefined) return;
    if (!group.members.some(({ run: life }) => life.controller.signal.aborted)) {
      for (const node of group.members) node.run.groups.forEach((below) => this.#sweep(below));
    } else if (![...subtree(group)].some(({ run: life }) => life.running)) {
      const pauseMs = Math.max(...group.members.map(({ run: life }) => life.pauseMs));
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
    if (group.pause !== pause) return; // hurried: it has begun, and perhaps failed again
    group.pause = undefined;
    if (over) this.#restart(group);
  }

  #hurry(group: Group): void {
    const { pause } = group;
    if (pause === undefined) {
      for (const node of group.members) node.run.groups.forEach((below) => this.#hurry(below));
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
      this.#move(node, 'new');
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
    const waitedFor = nodes.filter(({ path, run: life }) => life.running && !this.#stragglers.has(path));
    if (waitedFor.length > 0) return;
    if (!this.#stopping && nodes.some(({ state }) => state !== 'done')) return;
    if (this.#stragglers.size === 0) this.#end.resolve();
    else this.#end.reject(stragglerError([...this.#stragglers]));
  }

  #move(node: TreeNode, to: RunnableState): void {
    assertMove(node.path, node.state, to);
    node.state = to;
    node.sinceMs = this.#options.clock.nowMs();
  }
}

function stragglerError(paths: readonly string[]): SupervisorError {
  const message = `stopping the tree: ${paths.join(', ')} went on after the grace period`;
  return new SupervisorError('supervisor-straggler', message, { details: { paths } });
}

/** Whether the pause was over before the signal fired. */
async function slept(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  await clock.sleep(ms, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return !signal.aborted;
}
