import { env } from 'node:process';
import type { Command, CommandResult, CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort, FileStat, StreamPort } from '../../internal/file/index.ts';

/** Thrown at the effect at which a run is interrupted. */
export class PowerCut extends Error {
  override readonly name = 'PowerCut';
}

/** The real ports that a FakeKernel uses. */
interface RealPorts {
  readonly commands: CommandRunner;
  readonly files: FilePort;
  readonly streams: StreamPort;
}

/** Work that is cut at its effects in turn. */
export interface PowerCuts {
  readonly prepare: () => Promise<void>;
  readonly work: () => Promise<unknown>;
  readonly after: (cutAt: number) => Promise<void>;
  readonly reboots: boolean;
}

/** Cuts at each step take half an hour: the long stories make them. Otherwise before, in and after each write to the disk, and at some others. */
const CUTS_EVERYWHERE = env['EVERY_CUT'] === '1';
const OTHERS = 8;
const NEVER = Number.POSITIVE_INFINITY;

const MAPPING = '/dev/mapper/';
const NOTHING: CommandResult = { exitCode: 0, stdout: '', stderr: '' };

/**
 * The mappings and mounts of a kernel without device mapper. cryptsetup itself is real: it formats, and checks the key with which a disk
 * would be opened. Counts effects, and cuts the power at one of them; a write to the disk is then cut in its middle.
 */
export class FakeKernel {
  /** Effects of the current run. */
  readonly effects: string[] = [];
  /** Directories that were created on the mounted disk. */
  readonly created = new Set<string>();
  readonly #real: RealPorts;
  readonly #mapped = new Set<string>();
  readonly #mounted: { readonly source: string; readonly point: string }[] = [];
  #cut: { readonly from: number; readonly isSampled: boolean; at?: number } = {
    from: NEVER,
    isSampled: false,
  };

  constructor(real: RealPorts) {
    this.#real = real;
  }

  get mountPoints(): readonly string[] {
    return this.#mounted.map(({ point }) => point);
  }

  /**
   * Starts to count effects from 0. `cutAt` is the number of the first effect that does not happen.
   * @param isSampled whether the next effect that `cutRepeatedly()` cuts at may happen in place of this one
   */
  restart(cutAt = NEVER, isSampled = false): void {
    this.effects.length = 0;
    this.#cut = { from: cutAt, isSampled };
  }

  /** Switches the machine off and on: no mapping and no mount is left. */
  reboot(): void {
    this.#mapped.clear();
    this.#mounted.length = 0;
    this.restart();
  }

  /**
   * Runs `work` repeatedly, each time with a power cut at a later step, and then runs `after` on the machine that was
   * switched on again.
   * @returns how many effects the work has
   */
  async cutRepeatedly(cut: PowerCuts): Promise<number> {
    for (let from = 0; ;) {
      await cut.prepare();
      this.restart(from, !CUTS_EVERYWHERE);
      const error: unknown = await cut.work().then(
        () => undefined,
        (each: unknown) => each,
      );
      const { at } = this.#cut;
      if (error !== undefined && at === undefined) throw error as Error;
      if (at === undefined) return this.effects.length;
      from = at + 1;
      if (cut.reboots) this.reboot();
      else this.restart();
      await cut.after(at).catch((cause: unknown) => {
        throw new Error(`after the cut at effect ${at}`, { cause });
      });
    }
  }

  get commands(): CommandRunner {
    return { run: (command) => this.#run(command) };
  }

  get files(): FilePort {
    const { files } = this.#real;
    return {
      read: (path, max) =>
        path === '/proc/self/mountinfo' ? Promise.resolve(this.#mountinfo()) : files.read(path, max),
      writeAtomic: (...all) => this.#effect('writeAtomic', () => files.writeAtomic(...all)),
      createExclusive: (...all) => files.createExclusive(...all),
      makeDirectory: (path, mode) =>
        path.startsWith('/mounted') || path.startsWith('/on-disk')
          ? Promise.resolve(void this.created.add(path))
          : this.#effect('makeDirectory', () => files.makeDirectory(path, mode)),
      remove: (path) => this.#effect('remove', () => files.remove(path)),
      rename: (...all) => files.rename(...all),
      removeTemporary: (path) => files.removeTemporary(path),
      sync: (path) => this.#effect('sync', () => files.sync(path)),
      list: (...all) => files.list(...all),
      stat: (path) =>
        path.startsWith(MAPPING)
          ? Promise.resolve(this.#mapped.has(path.slice(MAPPING.length)) ? FOUND : undefined)
          : files.stat(path),
    };
  }

  get streams(): StreamPort {
    const { streams } = this.#real;
    return {
      readChunks: (...all) => streams.readChunks(...all),
      writeAt: (path, offset, bytes) =>
        this.#effect(
          'writeAt',
          () => streams.writeAt(path, offset, bytes),
          // A sector is written whole or not at all.
          () => streams.writeAt(path, offset, bytes.subarray(0, Math.floor(bytes.length / 1024) * 512)),
        ),
      publish: (...all) => streams.publish(...all),
      copy: (...all) => streams.copy(...all),
      freeBytes: (path) => streams.freeBytes(path),
      fileSystem: (path) => streams.fileSystem(path),
    };
  }

  /** Counts another operation, e.g. a command to the TPM, as an effect. */
  counted<T>(what: string, effect: () => Promise<T>): Promise<T> {
    return this.#effect(what, effect);
  }

  async #effect<T>(what: string, effect: () => Promise<T>, partly?: () => Promise<void>): Promise<T> {
    if (this.#cut.at !== undefined) throw new PowerCut(`after the cut: ${what}`);
    const index = this.effects.push(what) - 1;
    const { from, isSampled } = this.#cut;
    if (index >= from && (!isSampled || this.#isAtWrite(index) || index % OTHERS === 0)) {
      this.#cut.at = index;
      await partly?.();
      throw new PowerCut(what);
    }
    return effect();
  }

  /** Whether an effect is a write to the disk, or the first after it: what a machine finds is decided there. */
  #isAtWrite(index: number): boolean {
    return this.effects[index] === 'writeAt' || this.effects[index - 1] === 'sync';
  }

  #run(command: Command): Promise<CommandResult> {
    const [program, ...args] = command.argv;
    if (program === 'realpath') return this.#real.commands.run(command);
    return this.#effect(
      [program, ...args.filter((each) => /^[a-zA-Z]/.test(each)).slice(0, 1)].join(' '),
      () =>
        program === 'cryptsetup' ? this.#cryptsetup(command) : Promise.resolve(this.#mount(program, args)),
    );
  }

  async #cryptsetup(command: Command): Promise<CommandResult> {
    const { argv } = command;
    const name = argv.at(-1) ?? '';
    if (argv.includes('close')) {
      this.#mapped.delete(name);
      return NOTHING;
    }
    if (!argv.includes('open') || argv.includes('--test-passphrase')) return this.#real.commands.run(command);
    if (this.#mapped.has(name)) throw new Error(`${name} is mapped already`);
    const [first, ...rest] = argv;
    const checking: Command['argv'] = [first, ...rest.slice(0, -1), '--test-passphrase'];
    const result = await this.#real.commands.run({ ...command, argv: checking });
    this.#mapped.add(name);
    return result;
  }

  #mount(program: string, args: readonly string[]): CommandResult {
    const [source = '', point = ''] = args.slice(-2);
    if (program === 'mount') this.#mounted.push({ source, point });
    if (program === 'umount')
      this.#mounted.splice(
        this.#mounted.findIndex((each) => each.point === point),
        1,
      );
    return NOTHING;
  }

  #mountinfo(): Uint8Array {
    const lines = this.#mounted.map(
      ({ point, source }, index) => `${index + 30} 29 253:0 / ${point} rw - ext4 ${source} rw`,
    );
    return Buffer.from(['29 1 8:1 / / rw - ext4 /dev/sda1 rw', ...lines, ''].join('\n'));
  }
}

const FOUND: FileStat = { kind: 'other', sizeBytes: 0, mode: 0o600, modifiedMs: 0 };
