import { createPrivateKey, createPublicKey } from 'node:crypto';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import {
  encodeBackupCertificate,
  recoveryKeyOfOwner,
  signBackupCertificate,
  type CopyStore,
} from '../../../internal/backup/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../../internal/crypto/index.ts';
import { Namespace, type EtcdClient } from '../../../internal/etcd/index.ts';
import type { StreamPort } from '../../../internal/file/index.ts';
import { nodeIdOf } from '../../../internal/pki/index.ts';
import { LowPriority } from '../../../internal/platform/index.ts';
import {
  BACKUP_HEAD_KEY,
  BACKUP_SCHEDULE_KEY,
  CLUSTER_KEY,
  CLUSTER_PREFIX,
  KEPT_BACKUPS_PREFIX,
  records,
  SETTINGS_KEY,
  type BackupRecord,
} from '../../../internal/records/index.ts';
import { MemoryEtcd, MemoryFiles, type FakeClock } from '../../../internal/testing/index.ts';
import { BackupRing } from './backup-ring.ts';
import { EventValue } from '../../../internal/event/index.ts';
import { NodeStatusSchema } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { ThrowawayKind } from '../../consensus/index.ts';
import type { BackupCopies, ScheduledBackups } from '../../roleserve/index.ts';
import type { ScheduleWorkerOptions, StateEtcd } from './schedule-worker.ts';

const signal = new AbortController().signal;
const MINUTE = 60_000;
const MAX_BYTES = 1024 ** 2;

/** The key of the owner of the test cluster. */
export const ownerPem = generateEd25519Key();
/** Raw Ed25519. */
export const owner = ed25519PubKeyFrom(ownerPem) ?? new Uint8Array();

/** The content of a throwaway etcd, which tests can make differ from the cluster. */
export interface Restored {
  hash: number;
  keys: readonly string[];
}

/** Control planes with one etcd in memory, and a disk for each. */
export class FakeCluster {
  readonly etcd = new MemoryEtcd();
  readonly records = new Namespace(this.etcd, CLUSTER_PREFIX);
  readonly clock: FakeClock;
  /** How many snapshots etcd has sent. */
  snapshots = 0;
  /** Snapshots that were restored, as text. */
  readonly restoredSnapshots: string[] = [];
  restored: Restored = { hash: 4711, keys: ['/registry/pods/default/a'] };
  /** How often etcd compacts its history during a backup from now on. */
  compactions = 0;
  /** Whether etcd compacts its history after the last snapshot of each backup has begun. */
  compactsDuringSnapshot = false;
  /** Whether etcd answers nothing. */
  isAway = false;
  /** The kind of place where proofs have their data, and the sizes for which places were asked, in bytes. */
  placeKind: ThrowawayKind = 'memory';
  readonly proofSizes: number[] = [];
  /** Each change of the priority of an agent, and each restored snapshot that it compares meanwhile. */
  readonly niceness: (number | 'proof')[] = [];
  /** Paths of all files of backups and proofs that were written. */
  readonly written = new Set<string>();
  /** IDs of the nodes whose disks are full. */
  readonly full = new Set<string>();
  /** Space that is left on full disks, in bytes. */
  leftBytes = 1024;
  /** Paths of files that cannot be read. */
  readonly unreadable = new Set<string>();
  /** The values that the workers publish about the backups of the cluster. */
  readonly published = {
    scheduledBackups: new EventValue<ScheduledBackups | undefined>(),
    backupCopies: new EventValue<BackupCopies | undefined>(),
  };
  readonly files = new MemoryFiles();
  #compactRevision = 1n;

  constructor(clock: FakeClock) {
    this.clock = clock;
  }

  async create(nodeIds: readonly string[]): Promise<void> {
    const node = (nodeId: string) =>
      records.node.put(records.node.key(nodeId), {
        ...{ version: 1, nodeId, name: nodeId.slice(-4), pubKey: '', state: 'UP', createdMs: 1 },
        ...{ roles: ['ConsensusMember', 'KubernetesController'], labels: {} },
      });
    const cluster = records.cluster.put(CLUSTER_KEY, {
      ...{ version: 1, clusterId: 'c0ffee', clusterName: 'blue', firstNodeId: nodeIds[0] ?? '' },
      ...{ epoch: 2, caPem: 'CA', createdMs: 1 },
    });
    const settings = records.settings.put(SETTINGS_KEY, {
      ...{ version: 1, clusterName: 'blue', kubernetesVersion: 'v1.37.2', bundleManifest: '{}' },
      ...{ podSubnet: '10.0.0.0/16', serviceSubnet: '10.1.0.0/16', apiServerSans: [] },
    });
    await this.records.commit({ when: [], then: [cluster, settings, ...nodeIds.map(node)] }, { signal });
  }

  /** Stores a schedule that an owner signed. */
  async schedule(
    nodeIds: readonly string[],
    change: {
      readonly everyMinutes?: number;
      readonly keep?: number;
      readonly issuedMs?: number;
      readonly endsMs?: number;
      readonly copyTo?: string;
      readonly copyToStore?: CopyStore;
    } = {},
    by = ownerPem,
  ): Promise<void> {
    const { everyMinutes = 10, keep = 2, issuedMs = Math.round(this.clock.nowMs()), ...rest } = change;
    const { endsMs = issuedMs + 1e12, ...targets } = rest;
    const certificate = encodeBackupCertificate(
      signBackupCertificate(
        {
          ...{ clusterId: 'c0ffee', epoch: 2, nodeIds: [...nodeIds], everyMinutes, keep, issuedMs },
          ...targets,
          ...{ recipients: [recoveryKeyOfOwner(ownerPem).recipient], endsMs },
        },
        { keyPem: by, vouchers: [] },
      ),
    );
    const record = records.backupSchedule.put(BACKUP_SCHEDULE_KEY, {
      ...{ version: 1, certificate: Buffer.from(certificate).toString('base64'), workspace: '' },
      ...{ updatedMs: 1, updatedBy: 'operator:owner' },
    });
    await this.records.commit({ when: [], then: [record] }, { signal });
  }

  /** Lets a control plane report how the members of the Kubernetes etcd compare. */
  async report(
    nodeId: string,
    compared: { readonly agreeing: readonly string[]; readonly differing: readonly string[] },
  ): Promise<void> {
    const kubernetes = {
      comparedMs: 1n,
      agreeing: [...compared.agreeing],
      differing: [...compared.differing],
    };
    const status = toBinary(NodeStatusSchema, create(NodeStatusSchema, { etcdContents: { kubernetes } }));
    const record = records.status.put(records.status.key(nodeId), {
      ...{ version: 1, status: Buffer.from(status).toString('base64'), updatedMs: 1 },
    });
    await this.records.commit({ when: [], then: [record] }, { signal });
  }

  async kept(): Promise<readonly BackupRecord[]> {
    const { entries } = await this.records.list(KEPT_BACKUPS_PREFIX, { signal });
    return entries.map(({ key, value }) => records.backup.decode(key, value));
  }

  async failure(): Promise<string | undefined> {
    return (await records.backupHead.read(this.records, BACKUP_HEAD_KEY, signal)).record?.failure?.code;
  }

  ringOf(name: string): BackupRing {
    const { files, unreadable } = this;
    const streams: StreamPort = {
      readChunks: async function* (path) {
        if (unreadable.has(path)) throw new Error('EIO: i/o error, read');
        yield (await files.read(path, MAX_BYTES)) ?? new Uint8Array();
      },
      writeAt: async (path, offset, bytes) => {
        this.written.add(path);
        const before = (await files.read(path, MAX_BYTES)) ?? new Uint8Array();
        await files.writeAtomic(path, Buffer.concat([before.subarray(0, offset), bytes]));
      },
      publish: (from, to) => files.rename(from, to),
      copy: () => Promise.reject(new Error('not used')),
      freeBytes: () => Promise.resolve(this.full.has(name) ? this.leftBytes : 1024 ** 4),
      fileSystem: () => Promise.reject(new Error('not used by backups')),
    };
    return new BackupRing({ files, streams, clock: this.clock }, `/${name}`);
  }

  /** Options of the worker on one control plane. */
  optionsOf(machine: Machine): ScheduleWorkerOptions {
    return {
      ...{ files: this.files, clock: this.clock, agentVersion: '1.0.0', clusterId: 'c0ffee' },
      ...{ nodeId: machine.nodeId, keyPem: machine.keyPem, ownerKeys: [owner], keyFiles: {} },
      newestSchedule: join('/', machine.nodeId, 'schedule.json'),
      lowPriority: new LowPriority((niceness) => void this.niceness.push(niceness), 0),
      ring: this.ringOf(machine.nodeId),
      etcdMembers: () => ({ state: this.#etcdOf('state'), kubernetes: this.#etcdOf('kubernetes') }),
      withPlace: async (neededBytes, work) => {
        this.proofSizes.push(neededBytes);
        const kind = this.placeKind;
        const disk = join('/', machine.nodeId, 'work');
        const snapshots = kind === 'memory' ? join('/memory', machine.nodeId) : disk;
        await this.files.makeDirectory(snapshots);
        try {
          return await work({ kind, snapshots, restored: undefined, memoryBytes: 0 });
        } finally {
          await this.files.remove('/memory');
        }
      },
      withSnapshot: async (_name, { path }, work) => {
        this.niceness.push('proof');
        this.restoredSnapshots.push(Buffer.from((await this.files.read(path, MAX_BYTES)) ?? []).toString());
        const { hash, keys } = this.restored;
        await work({
          maintenance: { hash: () => Promise.resolve({ hash, compactRevision: 1n }) },
          keys: async function* () {
            yield await Promise.resolve(keys);
          },
        } as unknown as Pick<EtcdClient, 'keys' | 'maintenance'>);
      },
      writes: this.published,
      cleanUp: () => Promise.resolve(),
    };
  }

  #etcdOf(name: string): StateEtcd {
    const { etcd } = this;
    const maintenance = {
      hash: () => Promise.resolve({ hash: 4711, compactRevision: this.#compactRevision }),
      status: () => Promise.resolve({ dbSizeBytes: 1000 }),
      snapshot: async function* (this: FakeCluster): AsyncGenerator<Uint8Array> {
        this.snapshots++;
        await Promise.resolve();
        if (this.compactions > 0) {
          this.compactions--;
          this.#compactRevision++;
        }
        yield Buffer.from(`content of ${name}`);
        if (this.compactsDuringSnapshot && name === 'kubernetes') this.#compactRevision++;
      }.bind(this),
    };
    const keys = async function* () {
      yield await Promise.resolve(['/registry/pods/default/a']);
    };
    const entries = async function* () {
      yield await Promise.resolve([{ key: '/registry/pods/default/a', value: Buffer.from('a') }]);
    };
    return Object.assign(Object.create(etcd) as MemoryEtcd, {
      ...{ maintenance, keys, entries },
      ...boundMethods(etcd),
      ...(this.isAway ? { get: away, list: away, commit: away } : {}),
    }) as unknown as StateEtcd;
  }
}

/** A machine with its key. */
export interface Machine {
  readonly nodeId: string;
  readonly keyPem: ReturnType<typeof generateEd25519Key>;
}

/** A new machine. */
export function createMachine(): Machine {
  const keyPem = generateEd25519Key();
  const spki = createPublicKey(createPrivateKey(keyPem.reveal())).export({ format: 'der', type: 'spki' });
  return { nodeId: nodeIdOf(spki), keyPem };
}

/** Time between two backups of the test schedule, in ms. */
export const PERIOD_MS = 10 * MINUTE;

const away = (): Promise<never> => Promise.reject(new Error('etcd is away'));

/** The methods use private members, so they need the object itself. */
function boundMethods(etcd: MemoryEtcd) {
  return {
    get: etcd.get.bind(etcd),
    list: etcd.list.bind(etcd),
    commit: etcd.commit.bind(etcd),
    watch: etcd.watch.bind(etcd),
    grantLease: etcd.grantLease.bind(etcd),
    keepLeaseAlive: etcd.keepLeaseAlive.bind(etcd),
    revokeLease: etcd.revokeLease.bind(etcd),
  };
}
