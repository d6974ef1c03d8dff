import { describeError } from '../errors/index.ts';
import type { CommandRunner } from '../exec/index.ts';
import type { FilePort } from '../file/index.ts';
import { PlatformError } from './errors.ts';

const UNIT_DIRECTORY = '/etc/systemd/system';
/** Of packages; systemd read it when the machine or the package came (postinst). */
const SHIPPED_DIRECTORY = '/lib/systemd/system';
const MAX_UNIT_BYTES = 64 * 1024;
const START_MS = 120_000;
const STOP_MS = 120_000;
const ASKED_MS = 10_000;
const LOG_LINES = 12;

/** What systemd says of a unit (systemd.unit(5), `systemctl show`). */
export interface UnitStatus {
  readonly active: 'active' | 'activating' | 'reloading' | 'deactivating' | 'inactive' | 'failed';
  readonly sub: string;
  readonly mainPid: number;
  /** "success", "exit-code", "signal", "oom-kill", … */
  readonly result: string;
  readonly restarts: number;
}

/** Long-lived processes as systemd units: written, started and stopped by the agent, outliving it. */
export interface UnitPort {
  /**
   * Writes the unit file, or a drop-in as "UNIT.d/NAME.conf", when it differs. Answers whether the unit has yet to be
   * started or restarted with what is written: also when an earlier life wrote it and was killed before it came to that.
   */
  install(unit: string, content: string, signal: AbortSignal): Promise<boolean>;
  /**
   * To be called before a file is written that the unit reads when it starts: from here on `install` answers that it has
   * yet to be started or restarted, in later lives too.
   */
  requireRestart(unit: string): Promise<void>;
  /** Enables the unit for the next boot where asked, starts it and waits until systemd calls it active. */
  start(unit: string, signal: AbortSignal, options?: { readonly enable?: boolean }): Promise<void>;
  /** Starts it where it does not run. */
  restart(unit: string, signal: AbortSignal): Promise<void>;
  /** Stops the unit and takes it out of the boot; fine when it does not exist. */
  stop(unit: string, signal: AbortSignal): Promise<void>;
  status(unit: string, signal: AbortSignal): Promise<UnitStatus>;
  /** The unit's last log lines, oldest first. */
  recentLog(unit: string, lines: number, signal: AbortSignal): Promise<readonly string[]>;
}

export class SystemdUnits implements UnitPort {
  readonly #files: FilePort;
  readonly #commands: CommandRunner;

  constructor(ports: { readonly files: FilePort; readonly commands: CommandRunner }) {
    this.#files = ports.files;
    this.#commands = ports.commands;
  }

  async install(unit: string, content: string, signal: AbortSignal): Promise<boolean> {
    const path = `${UNIT_DIRECTORY}/${unit}`;
    const found = await this.#textOf(path);
    // To have systemd read a drop-in means to run all generators and to read all units again.
    if (
      isDropIn(unit) &&
      found === undefined &&
      (await this.#textOf(`${SHIPPED_DIRECTORY}/${unit}`)) === content
    )
      return false;
    const isWritten = found === content;
    if (isWritten && (await this.#files.stat(pendingPath(unit))) === undefined) return false;
    await this.#files.makeDirectory(path.slice(0, path.lastIndexOf('/')), 0o755);
    await this.requireRestart(unit);
    if (!isWritten) await this.#files.writeAtomic(path, content, { mode: 0o644 });
    if (!(await this.#isRead(unit, signal))) await this.#systemctl(['daemon-reload'], START_MS, signal);
    if (isDropIn(unit)) await this.#files.remove(pendingPath(unit)); // nobody starts a drop-in
    return true;
  }

  /**
   * Whether systemd has this very file. It reads one that it did not know when it is asked for it; to reload means to run
   * all generators and to read all units again, for each of a new node's units.
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
    const argv = [
      'journalctl',
      '--unit',
      unit,
      '--lines',
      String(lines),
      '--output',
      'cat',
      '--no-pager',
    ] as const;
    const { stdout } = await this.#commands.run({
      argv: [...argv],
      timeoutMs: 10_000,
      okExitCodes: [0, 1],
      signal,
    });
    return stdout.split('\n').filter((line) => line !== '');
  }

  async #textOf(path: string): Promise<string | undefined> {
    const found = await this.#files.read(path, MAX_UNIT_BYTES);
    return found === undefined ? undefined : Buffer.from(found).toString('utf8');
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

  /** "Job for X failed" helps nobody: the unit's own last words do. */
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

/** There while what is written is not yet what runs. systemd takes no file for a unit whose name begins with a dot. */
function pendingPath(unit: string): string {
  const slash = unit.lastIndexOf('/') + 1;
  return `${UNIT_DIRECTORY}/${unit.slice(0, slash)}.${unit.slice(slash)}.pending`;
}

function isDropIn(unit: string): boolean {
  return unit.includes('/');
}
