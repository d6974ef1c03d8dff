import { createHash } from 'node:crypto';
import { join } from 'node:path';
import {
  BackupError,
  decodeObjects,
  parseFacts,
  readBackupParts,
  type BackupFacts,
  type ObjectDigests,
  type PartName,
  type RecoveryKey,
} from '../../internal/backup/index.ts';
import { digestOf, parseManifest } from '../../internal/bundle/index.ts';
import { openBundleCache } from '../../internal/bundlebuild/index.ts';
import { OWN_PID } from '../../internal/exec/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import { buildContext } from '../bundle/index.ts';
import { withWorkDirectory } from './work-directory.ts';
import { proveSnapshot, type ProvedSnapshot } from './prove-snapshot.ts';

const EXECUTABLE = 0o755;
/** The parts other than snapshots are small. */
const MAX_PART_BYTES = 8 * 1024 * 1024;
const MEMORY_DISK = '/dev/shm';

/** A snapshot of etcd in a file. */
export interface SnapshotFile {
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** The decrypted content of a backup. */
export interface UnpackedBackup {
  readonly configuration: Uint8Array;
  readonly bundle: Uint8Array;
  /** JSON: the text of each key file by its name. */
  readonly sharedKeys: Secret<Uint8Array>;
  readonly facts: BackupFacts;
  readonly state: SnapshotFile;
  readonly kubernetes: SnapshotFile;
}

/**
 * Decrypts a backup into a new directory, in memory unless `workDir` is set, and restores both snapshots into empty data
 * directories there. The directory is deleted when `work` has ended. Shared keys are never written to it.
 * @throws BackupError, BackupCommandError `backup-unproved`
 */
export async function withUnpackedBackup<T>(
  context: CommandContext,
  {
    file,
    key,
    workDir,
  }: { readonly file: string; readonly key: RecoveryKey; readonly workDir: string | undefined },
  work: (unpacked: UnpackedBackup, proof: Proof) => Promise<T>,
): Promise<T> {
  const { signal, host } = context;
  const { files } = context.ports;
  const streams = new DiskStreams();
  const hasMemory = (await files.stat(MEMORY_DISK)) !== undefined;
  const base = workDir ?? (hasMemory ? MEMORY_DISK : context.paths.cache);
  const fileBytes = (await files.stat(file))?.sizeBytes ?? 0;
  return withWorkDirectory({ files, streams }, { base, fileBytes, pid: OWN_PID }, async (directory) => {
    const [unpacked, proof] = await host.step('backup-prove', 'Restoring it into an empty etcd', async () => {
      const parts = readBackupParts(streams.readChunks(file, { signal }), [key]);
      const content = await unpack(context, parts, directory);
      return [content, await prove(context, content, directory)] as const;
    });
    return work(unpacked, proof);
  });
}

/**
 * The objects of Kubernetes in a backup; undefined if an older release took it, or if etcd compacted its history
 * meanwhile.
 * @throws BackupError
 */
export async function readObjects(
  { signal }: CommandContext,
  file: string,
  key: RecoveryKey,
): Promise<ObjectDigests | undefined> {
  const parts = readBackupParts(new DiskStreams().readChunks(file, { signal }), [key]);
  return decodeObjects(
    (async function* () {
      for await (const { name, data } of parts) if (name === 'objects') yield data;
    })(),
  );
}

/** The facts in a backup, without the databases. @throws BackupError */
export async function readFacts(
  { signal }: CommandContext,
  file: string,
  key: RecoveryKey,
): Promise<BackupFacts> {
  const parts = readBackupParts(new DiskStreams().readChunks(file, { signal }), [key]);
  const facts: Uint8Array[] = [];
  for await (const { name, data } of parts) if (name === 'facts') facts.push(data);
  return parseFacts(new Uint8Array(Buffer.concat(facts)));
}

/** The configuration of the cluster in a backup. It comes before the databases, which are not read. @throws BackupError */
export async function readConfiguration(
  { signal }: CommandContext,
  file: string,
  key: RecoveryKey,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const { name, data } of readBackupParts(new DiskStreams().readChunks(file, { signal }), [key])) {
    if (name === 'configuration') chunks.push(data);
    else if (name !== 'workspace') break;
  }
  return new Uint8Array(Buffer.concat(chunks));
}

/** What was proved about both databases. */
export interface Proof {
  readonly state: ProvedSnapshot;
  readonly kubernetes: ProvedSnapshot;
}

/** Writes the snapshots to files and keeps the small parts in memory. */
async function unpack(
  { signal }: CommandContext,
  parts: ReturnType<typeof readBackupParts>,
  directory: string,
): Promise<UnpackedBackup> {
  const streams = new DiskStreams();
  const small = new Map<PartName, Uint8Array[]>();
  const sizes = new Map<PartName, number>();
  const hashes = new Map<PartName, ReturnType<typeof createHash>>();
  for await (const { name, data } of parts) {
    signal.throwIfAborted();
    const offset = sizes.get(name) ?? 0;
    sizes.set(name, offset + data.length);
    if (name === 'objects') continue; // of any size, and not part of a restore
    if (name.endsWith('-etcd')) {
      await streams.writeAt(join(directory, name), offset, data);
      const hash = hashes.get(name) ?? createHash('sha256');
      hashes.set(name, hash.update(data));
    } else if (offset + data.length > MAX_PART_BYTES)
      throw new BackupError(
        'backup-content-invalid',
        `reading part ${name}: more than ${MAX_PART_BYTES} bytes`,
      );
    else small.set(name, [...(small.get(name) ?? []), data]);
  }
  const bytesOf = (name: PartName): Uint8Array => new Uint8Array(Buffer.concat(small.get(name) ?? []));
  const snapshot = (name: PartName): SnapshotFile => ({
    path: join(directory, name),
    sha256: hashes.get(name)?.digest('hex') ?? '',
    sizeBytes: sizes.get(name) ?? 0,
  });
  return {
    configuration: bytesOf('configuration'),
    bundle: bytesOf('bundle'),
    sharedKeys: new Secret(bytesOf('shared-keys')),
    facts: parseFacts(bytesOf('facts')),
    state: snapshot('state-etcd'),
    kubernetes: snapshot('kubernetes-etcd'),
  };
}

async function prove(
  context: CommandContext,
  { bundle, facts, ...snapshots }: UnpackedBackup,
  directory: string,
): Promise<Proof> {
  const { ports, signal } = context;
  const etcdutl = await etcdutlOf(context, bundle);
  const proved = (name: 'state' | 'kubernetes'): Promise<ProvedSnapshot> =>
    proveSnapshot(ports, {
      ...{ etcdutl, directory, name, signal },
      snapshot: snapshots[name].path,
      facts: facts[name],
    });
  return { state: await proved('state'), kubernetes: await proved('kubernetes') };
}

/**
 * The program etcdutl from the bundle that the backup names. Files in the bundle cache are not executable, so it is
 * copied.
 */
async function etcdutlOf(context: CommandContext, bundle: Uint8Array): Promise<string> {
  const { kubernetesVersion, architecture } = parseManifest(bundle);
  const cache = openBundleCache(buildContext(context));
  const manifest = await cache.read(kubernetesVersion, architecture);
  const component = manifest.components.find(({ name, kind }) => name === 'etcdutl' && kind === 'binary');
  const blob = await cache.store.verify(component ?? '', context.signal);
  const streams = new DiskStreams();
  const path = join(context.paths.cache, 'bin', `etcdutl-${(component?.sha256 ?? '').slice(0, 16)}`);
  const found = await context.ports.files.stat(path);
  const isThere =
    found?.kind === 'file' &&
    (await digestOf(streams.readChunks(path, { signal: context.signal }))).sha256 === component?.sha256;
  if (isThere) return path;
  await context.ports.files.makeDirectory(join(context.paths.cache, 'bin'));
  await streams.copy(blob, `${path}.new`);
  await streams.publish(`${path}.new`, path, EXECUTABLE);
  return path;
}
