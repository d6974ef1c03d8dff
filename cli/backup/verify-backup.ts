import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  BackupError,
  parseFacts,
  parseRecoveryKey,
  readBackupParts,
  recoveryKeyOfOwner,
  verifyBackup,
  type BackupFacts,
  type PartName,
  type RecoveryKey,
} from '../../internal/backup/index.ts';
import { digestOf, parseManifest } from '../../internal/bundle/index.ts';
import { DiskStreams, readText } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import { openBundleCache } from '../../internal/bundlebuild/index.ts';
import { buildContext } from '../bundle/index.ts';
import { readCaller, type Caller } from '../cluster/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import { proveSnapshot, type ProvedSnapshot } from './prove-snapshot.ts';

const EXECUTABLE = 0o755;
/** The parts other than snapshots are small. */
const MAX_PART_BYTES = 8 * 1024 * 1024;
const MEMORY_DISK = '/dev/shm';
const IDENTITY = /^AGE-SECRET-KEY-1\S+$/m;

/** Flags of `cluster backup verify`. */
export interface BackupVerifyOptions {
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  /** Directory for the decrypted data. */
  readonly workDir: string | undefined;
}

/**
 * `cluster backup verify`: verifies the file, decrypts it, restores both snapshots into empty data directories and compares
 * them with what the control plane had. The decrypted data is deleted afterwards.
 */
export async function runBackupVerify(
  context: CommandContext,
  file: string,
  options: BackupVerifyOptions,
): Promise<void> {
  const { host, ports, signal } = context;
  const caller = await readCaller(context);
  const key = await recoveryKey(context, caller, options.recoveryKey);
  const chunks = () => new DiskStreams().readChunks(file, { signal });
  const trust = { owners: [caller.pubKey], clusterId: caller.clusterId, epoch: 1 };
  const { header, sha256 } = await host.step('backup-verify-file', `Verifying ${file}`, () =>
    verifyBackup(chunks(), trust),
  );
  const hasMemory = (await ports.files.stat(MEMORY_DISK)) !== undefined;
  const base = options.workDir ?? (hasMemory ? MEMORY_DISK : context.paths.cache);
  const directory = join(base, `cluster-backup-${randomBytes(8).toString('hex')}`);
  await ports.files.makeDirectory(directory);
  try {
    const proof = await host.step('backup-prove', 'Restoring it into an empty etcd', async () => {
      const parts = await unpack(context, readBackupParts(chunks(), [key]), directory);
      return prove(context, parts, directory);
    });
    host.result({ file, sha256, status: 'FILE-PROVED', proof, ...viewOf(header) }, () =>
      [renderHeader(header), renderProof('State', proof.state), renderProof('Kubernetes', proof.kubernetes)]
        .concat('FILE-PROVED: the file is complete, this key opens it, and both databases can be restored.')
        .join('\n'),
    );
  } finally {
    await ports.files.remove(directory);
  }
}

async function recoveryKey(
  { ports }: CommandContext,
  caller: Caller,
  path: string | undefined,
): Promise<RecoveryKey> {
  if (path === undefined) return recoveryKeyOfOwner(caller.keyPem);
  const found = IDENTITY.exec((await readText(ports.files, path)) ?? '')?.[0];
  if (found === undefined)
    throw new BackupError('backup-recipient-invalid', `reading ${path}: no age identity found`);
  return parseRecoveryKey(new Secret(found));
}

interface UnpackedParts {
  readonly bundle: Uint8Array;
  readonly facts: BackupFacts;
}

/** Writes the snapshots to files and returns the small parts that the proof needs. Shared keys are not written. */
async function unpack(
  { signal }: CommandContext,
  parts: ReturnType<typeof readBackupParts>,
  directory: string,
): Promise<UnpackedParts> {
  const streams = new DiskStreams();
  const small = new Map<PartName, Uint8Array[]>();
  const sizes = new Map<PartName, number>();
  for await (const { name, data } of parts) {
    signal.throwIfAborted();
    const offset = sizes.get(name) ?? 0;
    sizes.set(name, offset + data.length);
    if (name.endsWith('-etcd')) await streams.writeAt(join(directory, name), offset, data);
    else if (offset + data.length > MAX_PART_BYTES)
      throw new BackupError(
        'backup-content-invalid',
        `reading part ${name}: more than ${MAX_PART_BYTES} bytes`,
      );
    else small.set(name, [...(small.get(name) ?? []), data]);
  }
  const bytesOf = (name: PartName): Uint8Array => new Uint8Array(Buffer.concat(small.get(name) ?? []));
  return { bundle: bytesOf('bundle'), facts: parseFacts(bytesOf('facts')) };
}

async function prove(
  context: CommandContext,
  { bundle, facts }: UnpackedParts,
  directory: string,
): Promise<{ readonly state: ProvedSnapshot; readonly kubernetes: ProvedSnapshot }> {
  const { ports, signal } = context;
  const etcdutl = await etcdutlOf(context, bundle);
  const proved = (name: 'state' | 'kubernetes'): Promise<ProvedSnapshot> =>
    proveSnapshot(ports, {
      ...{ etcdutl, directory, name, signal },
      snapshot: join(directory, `${name}-etcd`),
      facts: facts[name],
    });
  return { state: await proved('state'), kubernetes: await proved('kubernetes') };
}

/** etcdutl of the bundle of the backup. Blobs are not executable, so it is copied. */
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

function renderProof(name: string, { revision, keys, isHashCompared }: ProvedSnapshot): string {
  const hash = isHashCompared
    ? 'same hash as on the control plane'
    : 'hash not comparable: etcd compacted its history while the backup was taken';
  return `${`${name} etcd:`.padEnd(16)} restored at revision ${revision}, ${keys} keys, ${hash}`;
}
