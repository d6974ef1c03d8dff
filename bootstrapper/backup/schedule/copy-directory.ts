import { describeError } from '../../../internal/errors/index.ts';
import { ExecError, type Command, type CommandRunner } from '../../../internal/exec/index.ts';
import { BACKUP_NAME, type BackupRecord } from '../../../internal/records/index.ts';
import { BackupTaskError } from '../errors.ts';
import type { CopyTarget, WantedCopies } from './copy-target.ts';

const CALL_MS = 60_000;
/** Time limit for copying or reading one file on a slow network file system. */
const FILE_MS = 60 * 60_000;
const PARTIAL = '.partial';

/**
 * The copies of one node's backups in a directory that an owner has named, usually on a network file system:
 *
 * ```
 * DIRECTORY/CLUSTER-ID/NODE-ID/NAME      the same bytes as on this node's disk
 * DIRECTORY/CLUSTER-ID/NODE-ID/.partial  the copy in progress
 * ```
 *
 * Every access runs a separate program: a network file system that does not respond blocks its callers, and would block
 * the agent. The file server can put symbolic links into the directory, so no symbolic link is followed.
 */
export class CopyDirectory implements CopyTarget {
  readonly #commands: CommandRunner;
  readonly #root: string;
  readonly #cluster: string;
  readonly #place: string;

  constructor(
    commands: CommandRunner,
    at: { readonly directory: string; readonly clusterId: string; readonly nodeId: string },
  ) {
    this.#commands = commands;
    this.#root = at.directory;
    this.#cluster = `${at.directory}/${at.clusterId}`;
    this.#place = `${this.#cluster}/${at.nodeId}`;
  }

  /** @throws BackupTaskError `backup-node-copy-target`, `backup-node-copy-failed` */
  async update(
    from: string,
    { backups, keep }: Omit<WantedCopies, 'verified'>,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const device = await this.#requireOtherDisk(from, signal);
    for (const path of [this.#cluster, this.#place]) {
      await this.#run(['mkdir', '--parents', '--', path], signal);
      if ((await this.#device(path, signal)) !== device)
        throw new BackupTaskError(
          'backup-node-copy-target',
          `copying backups: ${path} is on another file system than ${this.#root}`,
        );
    }
    const present = new Set(await this.#list(signal));
    for (const backup of backups.toSorted((a, b) => a.seq - b.seq)) {
      if (!present.has(backup.name)) await this.#copy(from, backup, signal);
      present.add(backup.name);
    }
    // Names begin with the number of the backup, so they sort by age. Old copies are deleted only after all newer
    // copies exist.
    const kept = [...present].toSorted().slice(-Math.max(1, keep, backups.length));
    for (const name of present)
      if (!kept.includes(name)) await this.#run(['rm', '--force', '--', `${this.#place}/${name}`], signal);
    return kept;
  }

  /**
   * If its file system is not mounted, the directory is an empty one on a disk of the machine (the disk of the backups
   * or of the operating system). Copies would then fill that disk.
   */
  async #requireOtherDisk(from: string, signal: AbortSignal): Promise<string> {
    const target = await this.#device(this.#root, signal);
    for (const own of [from, '/'])
      if (target === (await this.#device(own, signal)))
        throw new BackupTaskError(
          'backup-node-copy-target',
          `copying backups: ${this.#root} is on the same file system as ${own}`,
        );
    return target;
  }

  /** The device of a directory. Refuses a symbolic link. */
  async #device(path: string, signal: AbortSignal): Promise<string> {
    const argv = ['stat', '--format', '%d %F', '--', path] as const;
    const { stdout } = await this.#commands
      .run({ argv, timeoutMs: CALL_MS, signal })
      .catch((cause: unknown) => {
        signal.throwIfAborted();
        throw new BackupTaskError('backup-node-copy-target', `copying backups: ${path} cannot be read`, {
          cause,
        });
      });
    const [device = '', kind] = stdout.trim().split(/ (.*)/);
    if (kind === 'directory') return device;
    throw new BackupTaskError('backup-node-copy-target', `copying backups: ${path} is no directory`);
  }

  async #list(signal: AbortSignal): Promise<readonly string[]> {
    const files = ['-maxdepth', '1', '-type', 'f', '-printf', '%f\\n'] as const;
    const { stdout } = await this.#run(['find', this.#place, ...files], signal);
    return stdout.split('\n').filter((name) => BACKUP_NAME.test(name));
  }

  /** The copy gets its final name only after it was read back and is durable. */
  async #copy(from: string, { name, sha256 }: BackupRecord, signal: AbortSignal): Promise<void> {
    const partial = `${this.#place}/${PARTIAL}`;
    const onto = ['--no-target-directory', '--'] as const;
    await this.#run(['cp', '--remove-destination', ...onto, `${from}/${name}`, partial], signal, FILE_MS);
    await this.#run(['sync', '--', partial], signal, FILE_MS);
    const { stdout } = await this.#run(['sha256sum', '--', partial], signal, FILE_MS);
    if (!stdout.startsWith(`${sha256} `))
      throw new BackupTaskError('backup-node-copy-failed', `copying ${name}: read back with other bytes`);
    await this.#run(['mv', ...onto, partial, `${this.#place}/${name}`], signal);
    await this.#run(['sync', '--', this.#place], signal);
  }

  async #run(argv: Command['argv'], signal: AbortSignal, timeoutMs = CALL_MS) {
    return this.#commands.run({ argv, timeoutMs, signal }).catch((cause: unknown) => {
      signal.throwIfAborted();
      if (!(cause instanceof ExecError)) throw cause;
      throw new BackupTaskError('backup-node-copy-failed', `copying backups: ${describeError(cause)}`, {
        cause,
      });
    });
  }
}
