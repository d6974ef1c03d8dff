import { join } from 'node:path';
import type { BackupFacts, ScheduleCertificate, ScheduledStep } from '../../../internal/backup/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import type { BackupRecord } from '../../../internal/records/index.ts';
import type { SnapshotToRestore, ThrowawayPlace } from '../../consensus/index.ts';
import { BackupTaskError } from '../errors.ts';
import { joined } from '../paced.ts';
import { streamBackup, type BackupEtcd, type BackupStreamOptions } from '../stream-backup.ts';
import type { BackupRing, RingTrust } from './backup-ring.ts';
import { proveContent } from './prove-content.ts';

const READ_MS = 10_000;
const FILE = 'backup.partial';
const MIB = 1024 ** 2;
/** More than the difference between the size of a database and that of its backup. */
const FILE_EXTRA_BYTES = 64 * MIB;
/** etcd allocates two files of 64 MiB for its write-ahead log, and the databases grow until their snapshots begin. */
const PROOF_EXTRA_BYTES = 192 * MIB;
/** etcd compacts its history every five minutes, and a backup takes seconds: more compactions in a row are improbable. */
const ATTEMPTS = 3;

/** An etcd member as a scheduled backup uses it. */
export interface ScheduledEtcd extends BackupEtcd {
  readonly maintenance: Pick<EtcdClient['maintenance'], 'hash' | 'snapshot' | 'status'>;
}

type EtcdName = 'state' | 'kubernetes';

/** Ports and inputs of scheduled backups. */
export interface ScheduledBackupOptions extends BackupStreamOptions {
  readonly ownerKeys: readonly Uint8Array[];
  readonly ring: BackupRing;
  /** Runs `work` with a place of this size for the unencrypted data of a proof, which is deleted afterwards. */
  readonly withPlace: <T>(
    neededBytes: number,
    work: (place: ThrowawayPlace) => Promise<T>,
    signal: AbortSignal,
  ) => Promise<T>;
  /** Runs `work` with a throwaway etcd on a restored snapshot. */
  readonly withSnapshot: (
    name: EtcdName,
    snapshot: SnapshotToRestore,
    work: (etcd: Pick<EtcdClient, 'keys' | 'maintenance'>) => Promise<void>,
    signal: AbortSignal,
  ) => Promise<void>;
}

/** One scheduled backup. */
export interface ScheduledBackup {
  readonly seq: number;
  readonly certificate: ScheduleCertificate;
  readonly workspace: Uint8Array;
  readonly etcds: Readonly<Record<EtcdName, ScheduledEtcd>>;
  /** Called when a step begins. */
  readonly onStep: (step: ScheduledStep) => void;
  /** Called when the file is complete, before it is proved. */
  readonly onTaken: (record: BackupRecord) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Takes a backup into the ring and proves its content: restores the snapshots that were encrypted into a throwaway
 * etcd, and compares that etcd with the cluster. Resolves to the record with its proof. A backup that differs is
 * deleted.
 * @throws BackupError, BackupTaskError
 */
export async function takeScheduledBackup(
  options: ScheduledBackupOptions,
  backup: ScheduledBackup,
): Promise<BackupRecord> {
  const { ring, withPlace } = options;
  const { signal } = backup;
  using _low = options.lowPriority.begin();
  try {
    for (let attempt = 1; ; attempt++) {
      backup.onStep('prepare');
      await ring.clean();
      const sizes = await databaseSizes(backup);
      try {
        return await withPlace(
          proofBytes(sizes),
          (place) => takeOnce(options, backup, { place, sizes }),
          signal,
        );
      } catch (error) {
        if (findCoded(error)?.code !== 'backup-node-incomparable' || attempt >= ATTEMPTS) throw error;
      }
    }
  } finally {
    await ring.clean();
  }
}

/** The place of the proof, and the sizes of both databases in bytes. */
interface ProofSpace {
  readonly place: ThrowawayPlace;
  readonly sizes: readonly number[];
}

async function takeOnce(
  options: ScheduledBackupOptions,
  backup: ScheduledBackup,
  { place, sizes }: ProofSpace,
): Promise<BackupRecord> {
  const { ring, clock } = options;
  await requireSpace(ring, { place, sizes });
  const facts = await writeFiles(options, backup, place);
  const trust: RingTrust = options;
  backup.onStep('verify-file');
  const record = await ring.publish(FILE, backup.seq, trust, backup.signal);
  await backup.onTaken(record);
  try {
    await prove(options, backup, { place, facts });
  } catch (error) {
    const code = findCoded(error)?.code;
    if (code === 'backup-node-unproved' || code === 'backup-node-incomparable')
      await ring.remove(record.name);
    throw error;
  }
  backup.onStep('record-proof');
  const proof = { place: place.kind, sizeBytes: proofBytes(sizes) };
  const proved = { ...record, provedMs: Math.round(clock.nowMs()), proof };
  await ring.keepProof(proved);
  return proved;
}

async function databaseSizes({ etcds, signal }: ScheduledBackup): Promise<readonly number[]> {
  const limits = { signal, timeoutMs: READ_MS };
  const { state, kubernetes } = etcds;
  return [
    (await state.maintenance.status(limits)).dbSizeBytes,
    (await kubernetes.maintenance.status(limits)).dbSizeBytes,
  ];
}

/** The space for both snapshots, and for one restored snapshot at a time. */
function proofBytes(sizes: readonly number[]): number {
  return sumOf(sizes) + Math.max(...sizes) + PROOF_EXTRA_BYTES;
}

function sumOf(sizes: readonly number[]): number {
  return sizes.reduce((sum, each) => sum + each, 0);
}

async function requireSpace(ring: BackupRing, { place, sizes }: ProofSpace): Promise<void> {
  const needed = FILE_EXTRA_BYTES + sumOf(sizes) + (place.kind === 'memory' ? 0 : proofBytes(sizes));
  const free = await ring.freeBytes();
  if (free < needed)
    throw new BackupTaskError('backup-node-space', `taking a backup: ${free} bytes free, ${needed} needed`);
}

/** Writes the encrypted file and, in the place of the proof, the unencrypted snapshot of each etcd. */
async function writeFiles(
  options: ScheduledBackupOptions,
  { certificate, workspace, etcds, signal, onStep }: ScheduledBackup,
  { snapshots }: ThrowawayPlace,
): Promise<Omit<BackupFacts, 'version'>> {
  const { ring } = options;
  const offsets = new Map<string, number>();
  const append = async (path: string, data: Uint8Array): Promise<void> => {
    const offset = offsets.get(path) ?? 0;
    offsets.set(path, offset + data.length);
    await ring.append(path, offset, data);
  };
  let seen: Omit<BackupFacts, 'version'> | undefined;
  const observer = {
    begins: (part: EtcdName | 'objects') => onStep(part === 'objects' ? 'list-objects' : `snapshot-${part}`),
    snapshot: (name: EtcdName, data: Uint8Array) => append(snapshotIn(snapshots, name), data),
    facts: (facts: Omit<BackupFacts, 'version'>) => {
      seen = facts;
    },
  };
  for await (const data of joined(streamBackup(options, { certificate, workspace, etcds, observer }, signal)))
    await append(join(ring.work, FILE), data);
  if (seen === undefined)
    throw new TypeError('streamBackup() ended without reporting the facts of the backup');
  return seen;
}

async function prove(
  { withSnapshot }: ScheduledBackupOptions,
  { signal, onStep }: ScheduledBackup,
  { place, facts }: { readonly place: ThrowawayPlace; readonly facts: Omit<BackupFacts, 'version'> },
): Promise<void> {
  for (const name of ['state', 'kubernetes'] as const) {
    onStep(`restore-${name}`);
    await withSnapshot(
      name,
      { path: snapshotIn(place.snapshots, name), place },
      (restored) => {
        onStep(`compare-${name}`);
        return proveContent(name, restored, facts[name], signal);
      },
      signal,
    );
  }
}

function snapshotIn(directory: string, name: EtcdName): string {
  return join(directory, `${name}.snapshot`);
}
