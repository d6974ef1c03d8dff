import { join } from 'node:path';
import type { BackupFacts, ScheduleCertificate } from '../../../internal/backup/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import type { BackupRecord } from '../../../internal/records/index.ts';
import { BackupTaskError } from '../errors.ts';
import { joined } from '../paced.ts';
import { streamBackup, type BackupEtcd, type BackupStreamOptions } from '../stream-backup.ts';
import type { BackupRing, RingTrust } from './backup-ring.ts';
import { proveContent } from './prove-content.ts';

const READ_MS = 10_000;
const FILE = 'backup.partial';
/** A backup needs space for the encrypted file, for both snapshots, and for one restored snapshot at a time. */
const SPACE_FACTOR = 3;
const SPACE_MIN_BYTES = 256 * 1024 ** 2;
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
  /** Runs `work` with a throwaway etcd on a restored snapshot. */
  readonly withSnapshot: (
    name: EtcdName,
    snapshot: string,
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
  const { ring } = options;
  try {
    for (let attempt = 1; ; attempt++) {
      await ring.clean();
      await requireSpace(ring, backup);
      const facts = await writeFiles(options, backup);
      const trust: RingTrust = options;
      const record = await ring.publish(FILE, backup.seq, trust, backup.signal);
      await backup.onTaken(record);
      try {
        await prove(options, backup, facts);
        const proved = { ...record, provedMs: Math.round(options.clock.nowMs()) };
        await ring.keepProof(proved);
        return proved;
      } catch (error) {
        const code = findCoded(error)?.code;
        if (code === 'backup-node-unproved' || code === 'backup-node-incomparable')
          await ring.remove(record.name);
        if (code !== 'backup-node-incomparable' || attempt >= ATTEMPTS) throw error;
      }
    }
  } finally {
    await ring.clean();
  }
}

async function requireSpace(ring: BackupRing, { etcds, signal }: ScheduledBackup): Promise<void> {
  const limits = { signal, timeoutMs: READ_MS };
  const sizes = [
    (await etcds.state.maintenance.status(limits)).dbSizeBytes,
    (await etcds.kubernetes.maintenance.status(limits)).dbSizeBytes,
  ];
  const needed = SPACE_MIN_BYTES + SPACE_FACTOR * sizes.reduce((sum, each) => sum + each, 0);
  const free = await ring.freeBytes();
  if (free < needed)
    throw new BackupTaskError('backup-node-space', `taking a backup: ${free} bytes free, ${needed} needed`);
}

/** Writes the encrypted file and, beside it, the unencrypted snapshot of each etcd. */
async function writeFiles(
  options: ScheduledBackupOptions,
  { certificate, workspace, etcds, signal }: ScheduledBackup,
): Promise<Omit<BackupFacts, 'version'>> {
  const { ring } = options;
  const offsets = new Map<string, number>();
  const append = async (name: string, data: Uint8Array): Promise<void> => {
    const offset = offsets.get(name) ?? 0;
    offsets.set(name, offset + data.length);
    await ring.append(name, offset, data);
  };
  let seen: Omit<BackupFacts, 'version'> | undefined;
  const observer = {
    snapshot: (name: EtcdName, data: Uint8Array) => append(snapshotOf(name), data),
    facts: (facts: Omit<BackupFacts, 'version'>) => {
      seen = facts;
    },
  };
  for await (const data of joined(streamBackup(options, { certificate, workspace, etcds, observer }, signal)))
    await append(FILE, data);
  if (seen === undefined)
    throw new TypeError('streamBackup() ended without reporting the facts of the backup');
  return seen;
}

async function prove(
  { ring, withSnapshot }: ScheduledBackupOptions,
  { signal }: ScheduledBackup,
  facts: Omit<BackupFacts, 'version'>,
): Promise<void> {
  for (const name of ['state', 'kubernetes'] as const)
    await withSnapshot(
      name,
      join(ring.work, snapshotOf(name)),
      (restored) => proveContent(name, restored, facts[name], signal),
      signal,
    );
}

function snapshotOf(name: EtcdName): string {
  return `${name}.snapshot`;
}
