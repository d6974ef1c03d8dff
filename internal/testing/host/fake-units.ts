import type { UnitPort, UnitStatus } from '../../platform/index.ts';

/** A fake systemd: installed units can be started, and keep the state that was requested. */
export class FakeUnits implements UnitPort {
  readonly installed = new Map<string, string>();
  readonly active = new Set<string>();
  /** Every start, restart, kill and stop, in order. */
  readonly moves: string[] = [];
  /** The log lines that `recentLog` returns, by unit. */
  readonly logs = new Map<string, readonly string[]>();
  /** The number of automatic restarts of a unit. */
  readonly restarts = new Map<string, number>();
  /** The main process of a unit that runs; 1 by default. */
  readonly pids = new Map<string, number>();
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
    this.#outdated.delete(unit);
    if (this.active.has(unit)) return;
    this.moves.push(`start ${unit}`);
    this.active.add(unit);
  }

  async restart(unit: string): Promise<void> {
    if (!this.active.has(unit)) return this.start(unit);
    this.#outdated.delete(unit);
    this.moves.push(`restart ${unit}`);
  }

  /** systemd starts a new process at once. */
  async kill(unit: string): Promise<void> {
    this.moves.push(`kill ${unit}`);
    if (!this.active.has(unit)) return;
    this.pids.set(unit, this.#pidOf(unit) + 1);
    this.restarts.set(unit, (this.restarts.get(unit) ?? 0) + 1);
  }

  #pidOf(unit: string): number {
    return this.pids.get(unit) ?? 1;
  }

  async stop(unit: string): Promise<void> {
    if (!this.active.delete(unit)) return;
    this.moves.push(`stop ${unit}`);
  }

  async status(unit: string): Promise<UnitStatus> {
    const restarts = this.restarts.get(unit) ?? 0;
    const running = this.active.has(unit);
    return {
      active: running ? 'active' : 'inactive',
      sub: running && restarts === 0 ? 'running' : 'dead',
      mainPid: running ? this.#pidOf(unit) : 0,
      result: 'success',
      restarts,
    };
  }

  async recentLog(unit: string, lines: number): Promise<readonly string[]> {
    return (this.logs.get(unit) ?? []).slice(-lines);
  }
}
