import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { UnitPort, UnitStatus } from '../../platform/index.ts';

/**
 * Units without systemd: `start` runs the unit's ExecStart as a child process. Other functions of systemd
 * (users, sandboxes, restarts) are missing.
 */
export class ProcessUnits implements UnitPort, AsyncDisposable {
  readonly installed = new Map<string, string>();
  /** Every start, restart and stop, in order. */
  readonly moves: string[] = [];
  readonly #running = new Map<string, ChildProcess>();
  readonly #outdated = new Set<string>();

  async install(unit: string, content: string): Promise<boolean> {
    const changed = this.installed.get(unit) !== content;
    this.installed.set(unit, content);
    return changed || this.#outdated.has(unit);
  }

  async requireRestart(unit: string): Promise<void> {
    this.#outdated.add(unit);
  }

  async start(unit: string): Promise<void> {
    this.moves.push(`start ${unit}`);
    this.#outdated.delete(unit);
    this.#spawn(unit);
  }

  async restart(unit: string): Promise<void> {
    this.moves.push(`restart ${unit}`);
    this.#outdated.delete(unit);
    await this.kill(unit);
    this.#spawn(unit);
  }

  async stop(unit: string): Promise<void> {
    this.moves.push(`stop ${unit}`);
    await this.kill(unit);
  }

  async status(unit: string): Promise<UnitStatus> {
    const pid = this.#running.get(unit)?.pid;
    const state =
      pid === undefined
        ? ({ active: 'inactive', sub: 'dead' } as const)
        : ({ active: 'active', sub: 'running' } as const);
    return { ...state, mainPid: pid ?? 0, result: 'success', restarts: 0 };
  }

  async recentLog(): Promise<readonly string[]> {
    return [];
  }

  /** Sends SIGKILL, like a power failure. Not recorded in `moves`. */
  kill(unit: string): Promise<void> {
    return this.#end(unit, 'SIGKILL');
  }

  /** Sends SIGTERM, so that the process writes what it has in memory, and waits for its end. Not recorded in `moves`. */
  terminate(unit: string): Promise<void> {
    return this.#end(unit, 'SIGTERM');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const unit of [...this.#running.keys()]) await this.kill(unit);
  }

  async #end(unit: string, how: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#running.get(unit);
    if (child === undefined) return;
    this.#running.delete(unit);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(how);
    await ended;
  }

  #spawn(unit: string): void {
    const line = /^ExecStart=(.*)$/m.exec(this.installed.get(unit) ?? '')?.[1];
    const [program, ...args] = line?.split(' ') ?? [];
    if (program === undefined) throw new Error(`starting ${unit}: it is not installed`);
    const child = spawn(program, args, { stdio: 'ignore' });
    child.once('exit', () => {
      if (this.#running.get(unit) === child) this.#running.delete(unit);
    });
    this.#running.set(unit, child);
  }
}
