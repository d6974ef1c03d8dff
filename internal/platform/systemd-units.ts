import { dirname } from 'node:path';
import { describeError } from '../errors/index.ts';
import type { CommandRunner } from '../exec/index.ts';
import { readText, type FilePort, type WriteOptions } from '../file/index.ts';
import { PlatformError } from './errors.ts';

/** The directory of units and drop-ins that are written on this machine (systemd.unit(5)). */
export const UNIT_DIRECTORY = '/etc/systemd/system';
/** The directory of packaged units, which systemd has read at boot or at their installation. */
const SHIPPED_DIRECTORY = '/lib/systemd/system';
const START_MS = 120_000;
const STOP_MS = 120_000;
const ASKED_MS = 10_000;
const LOG_LINES = 12;

/** The state of a unit (`systemctl show`). */
export interface UnitStatus {
  readonly active: 'active' | 'activating' | 'reloading' | 'deactivating' | 'inactive' | 'failed';
  readonly sub: string;
  readonly mainPid: number;
  /** "success", "exit-code", "signal", "oom-kill", … */
  readonly result: string;
  readonly restarts: number;
}

/**
 * Interface (port) to systemd units. The agent writes, starts and stops units. Units keep running when the agent ends.
 */
export interface UnitPort {
  /**
   * Writes the unit file, or a drop-in "UNIT.d/NAME.conf", if it differs. Returns whether the unit must still be started or restarted with
   * this content, also when an earlier process has written it and was killed before the restart.
   */
  install(unit: string, content: string, signal: AbortSignal, options?: WriteOptions): Promise<boolean>;
  /**
   * To be called before a file is written that the unit reads at its start: from now on `install` returns true until the unit is started
   * or restarted, also in later processes.
   */
  requireRestart(unit: string): Promise<void>;
  /** Starts the unit and waits until systemd reports it active; with `enable`, also at each boot. */
  start(unit: string, signal: AbortSignal, options?: { readonly enable?: boolean }): Promise<void>;
  /** Starts the unit if it does not run. */
  restart(unit: string, signal: AbortSignal): Promise<void>;
  /**
   * Kills the main process of the unit, and no other one: containers run in the group of containerd. systemd starts a unit with
   * `Restart=always` again.
   */
  kill(unit: string, signal: AbortSignal): Promise<void>;
  /** Stops the unit and disables it, if it exists. */
  stop(unit: string, signal: AbortSignal): Promise<void>;
  status(unit: string, signal: AbortSignal): Promise<UnitStatus>;
  /** The unit's last log lines, oldest first. */
  recentLog(unit: string, lines: number, signal: AbortSignal): Promise<readonly string[]>;
}

/** The units of this machine, through systemctl and journalctl. */
export class SystemdUnits implements UnitPort {
  readonly #files: FilePort;
  readonly #commands: CommandRunner;

  constructor(ports: { readonly files: FilePort; readonly commands: CommandRunner }) {
    this.#files = ports.files;
    this.#commands = ports.commands;
  }

  async install(
    unit: string,
    content: string,
    signal: AbortSignal,
    { mode = 0o644 }: WriteOptions = {},
  ): Promise<boolean> {
    const path = `${UNIT_DIRECTORY}/${unit}`;
    const found = await readText(this.#files, path);
    // A drop-in that a package installed with this content is not written again: a new one would need a
    // reload, during which systemd runs all generators and reads all units.
    if (
      isDropIn(unit) &&
      found === undefined &&
      (await readText(this.#files, `${SHIPPED_DIRECTORY}/${unit}`)) === content
    )
      return false;
    const isWritten = found === content;
    if (isWritten && (await this.#files.stat(pendingPath(unit))) === undefined) return false;
    await this.#files.makeDirectory(dirname(path), 0o755);
    await this.requireRestart(unit);
    if (!isWritten) await this.#files.writeAtomic(path, content, { mode });
    if (!(await this.#isRead(unit, signal))) await this.#systemctl(['daemon-reload'], START_MS, signal);
    if (isDropIn(unit)) await this.#files.remove(pendingPath(unit)); // no restart is pending, because a drop-in is not started
    return true;
  }

  /**
   * Whether systemd has loaded this file. `systemctl show` makes systemd read a new unit. This is much cheaper than a
   * reload, which runs all generators and reads all units.
   */
  async #isRead(unit: string, signal: AbortSignal): Promise<boolean> {
    if (isDropIn(unit)) return false;
    const shown = await this.#show(unit, ['LoadState', 'NeedDaemonReload'], signal);
    return shown.get('LoadState') === 'loaded' && shown.get('NeedDaemonReload') === 'no';
  }

  async requireRestart(unit: string): Promise<void> {
    await this.#files.writeAtomic(pendingPath(unit), '');
  }

  async start(unit: string, signal: AbortSignal, options: { readonly enable?: boolean } = {}): Promise<void> {
    if (options.enable === true) await this.#systemctl(['enable', '--quiet', unit], START_MS, signal);
    await this.#orLog('starting', unit, signal, () => this.#systemctl(['start', unit], START_MS, signal));
    await this.#files.remove(pendingPath(unit));
  }

  async restart(unit: string, signal: AbortSignal): Promise<void> {
    await this.#orLog('restarting', unit, signal, () => this.#systemctl(['restart', unit], START_MS, signal));
    await this.#files.remove(pendingPath(unit));
  }

  async kill(unit: string, signal: AbortSignal): Promise<void> {
    // systemd 252 has renamed `--kill-who`, and still takes the name that systemd 247 knows.
    await this.#systemctl(['kill', '--kill-who=main', '--signal=KILL', unit], ASKED_MS, signal);
  }

  async stop(unit: string, signal: AbortSignal): Promise<void> {
    const shown = await this.#show(unit, ['LoadState', 'ActiveState'], signal);
    const isActive = (shown.get('ActiveState') ?? 'inactive') !== 'inactive';
    if (shown.get('LoadState') === 'not-found' && !isActive) return;
    await this.#systemctl(['disable', '--quiet', unit], STOP_MS, signal, [0, 1]);
    if (isActive) await this.#systemctl(['stop', unit], STOP_MS, signal);
  }

  async status(unit: string, signal: AbortSignal): Promise<UnitStatus> {
    const properties = ['ActiveState', 'SubState', 'MainPID', 'Result', 'NRestarts'];
    const values = await this.#show(unit, properties, signal);
    return {
      active: (values.get('ActiveState') ?? 'inactive') as UnitStatus['active'],
      sub: values.get('SubState') ?? '',
      mainPid: Number(values.get('MainPID') ?? 0),
      result: values.get('Result') ?? '',
      restarts: Number(values.get('NRestarts') ?? 0),
    };
  }

  async recentLog(unit: string, lines: number, signal: AbortSignal): Promise<readonly string[]> {
    const options = ['--lines', String(lines), '--output', 'cat', '--no-pager'] as const;
    const { stdout } = await this.#commands.run({
      argv: ['journalctl', '--unit', unit, ...options],
      timeoutMs: ASKED_MS,
      okExitCodes: [0, 1],
      signal,
    });
    return stdout.split('\n').filter((line) => line !== '');
  }

  async #show(
    unit: string,
    properties: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const shown = await this.#systemctl(['show', '--property', properties.join(), unit], ASKED_MS, signal);
    return new Map(
      shown
        .split('\n')
        .filter((line) => line.includes('='))
        .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
  }

  async #systemctl(
    args: readonly string[],
    timeoutMs: number,
    signal: AbortSignal,
    okExitCodes?: readonly number[],
  ): Promise<string> {
    const options = okExitCodes === undefined ? {} : { okExitCodes };
    const { stdout } = await this.#commands.run({
      argv: ['systemctl', ...args],
      timeoutMs,
      signal,
      ...options,
    });
    return stdout;
  }

  /** Replaces "Job for X failed" by the last log lines of the unit. */
  async #orLog(
    doing: string,
    unit: string,
    signal: AbortSignal,
    work: () => Promise<unknown>,
  ): Promise<void> {
    try {
      await work();
    } catch (error) {
      signal.throwIfAborted();
      const said = await this.recentLog(unit, LOG_LINES, signal).catch((logError: unknown) => [
        describeError(logError),
      ]);
      throw new PlatformError('platform-unit-failed', `${doing} ${unit}: ${said.join(' | ')}`, {
        cause: error,
        details: { unit },
      });
    }
  }
}

/**
 * The path of a marker file that exists while a unit runs with older content. systemd ignores files whose
 * names begin with a dot.
 */
function pendingPath(unit: string): string {
  const slash = unit.lastIndexOf('/') + 1;
  return `${UNIT_DIRECTORY}/${unit.slice(0, slash)}.${unit.slice(slash)}.pending`;
}

function isDropIn(unit: string): boolean {
  return unit.includes('/');
}
