import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { diskStateOf, type DiskState, type RecordContent } from '../../internal/statedisk/index.ts';
import {
  createMemoryLogger,
  createSwtpmFactory,
  type Swtpm,
  type SwtpmFactory,
} from '../../internal/testing/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { FakeKernel } from './fake-kernel.ts';

/** A key pair of age-keygen(1). */
export const OWNER = {
  recipient: 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0',
  key: new Secret('AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R'),
};
export const DISK_BYTES = 64 * 2 ** 20;
/** The files and programs of the host. */
export const REAL = {
  commands: new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' }),
  files: new DiskFiles(),
  streams: new DiskStreams(),
};

/** A machine with a state disk, for tests only: a file, real cryptsetup and a software TPM, with the mappings and mounts of a `FakeKernel`. */
export class FakeMachine implements AsyncDisposable {
  kernel = new FakeKernel(REAL);
  readonly #logger = createMemoryLogger('disk');
  readonly #directory: string;
  readonly #factory: SwtpmFactory;

  private constructor(directory: string, factory: SwtpmFactory) {
    this.#directory = directory;
    this.#factory = factory;
  }

  static async create(): Promise<FakeMachine> {
    const factory = await createSwtpmFactory();
    return new FakeMachine(await mkdtemp('/dev/shm/cluster-disk-'), factory);
  }

  get records(): ReturnType<typeof createMemoryLogger>['records'] {
    return this.#logger.records;
  }

  at(name: string): string {
    return join(this.#directory, name);
  }

  settings(changed: Partial<DiskSettings> = {}): DiskSettings {
    return {
      ...{ device: this.at('disk'), name: 'test-state', isAuthenticated: false, pcrs: [7, 11] },
      approvalKey: undefined,
      recipients: [OWNER.recipient],
      recoveryThreshold: 1,
      mountPoint: '/mounted/disk',
      directories: [
        { name: 'cluster', path: '/on-disk/cluster', mode: 0o700 },
        { name: 'kubelet', path: '/on-disk/kubelet', mode: 0o700 },
      ],
      memory: this.at('memory'),
      permit: this.at('permit'),
      ...changed,
    };
  }

  /** Switches the machine off and gives it an empty disk. Its TPM remembers the disk before, so that the permit of an operator is there. */
  async reset(): Promise<void> {
    this.kernel = new FakeKernel(REAL);
    this.records.length = 0;
    await this.blank();
  }

  async blank(): Promise<void> {
    this.kernel.reboot();
    await writeFile(this.at('disk'), '');
    await truncate(this.at('disk'), DISK_BYTES);
    await writeFile(this.at('permit'), '');
  }

  /** Runs the machine with its TPM, or another one. Each use of the TPM is an effect at which the power may be cut. */
  async run<T>(use: (ports: DiskPorts, swtpm: Swtpm) => Promise<T>, tpms = this.#factory): Promise<T> {
    await using swtpm = await tpms.start();
    await using tpm = swtpm.open();
    const counting = Object.create(tpm, {
      use: { value: (...all: Parameters<Tpm['use']>) => this.kernel.counted('tpm', () => tpm.use(...all)) },
    }) as Tpm;
    const { commands, files, streams } = this.kernel;
    return await use({ commands, files, streams, tpm: counting, log: this.#logger.log }, swtpm);
  }

  /** The state of a disk that was formatted. */
  async state(device = 'disk'): Promise<Extract<DiskState, { readonly kind: 'ready' }>> {
    await using handle = await open(this.at(device));
    const { buffer } = await handle.read(Buffer.alloc(2 ** 24), 0, 2 ** 24, 0);
    const state = diskStateOf(buffer);
    if (state.kind !== 'ready') throw new Error(state.kind);
    return state;
  }

  async record(device = 'disk'): Promise<RecordContent> {
    return (await this.state(device)).record.content;
  }

  /** Whether the disk has the same bytes as its copy. */
  async isUntouched(): Promise<boolean> {
    const { signal } = new AbortController();
    const same = REAL.commands.run({ argv: ['cmp', this.at('disk'), this.at('copy')], signal });
    return same.then(
      () => true,
      () => false,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#factory[Symbol.asyncDispose]();
    await rm(this.#directory, { recursive: true });
  }
}
