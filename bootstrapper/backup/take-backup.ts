import { createHash, createPublicKey } from 'node:crypto';
import {
  BackupError,
  encodeFacts,
  parseBackupCertificate,
  verifyBackupCertificate,
  writeBackup,
  ObjectCounts,
  type BackupCertificate,
  type BackupHeader,
  type BackupPart,
  type EtcdFacts,
} from '../../internal/backup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { EtcdClient } from '../../internal/etcd/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  CLUSTER_KEY,
  CLUSTER_PREFIX,
  CONFIGURATION_KEY,
  records,
  SETTINGS_KEY,
} from '../../internal/records/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { BackupTaskError } from './errors.ts';
import { claimCertificate } from './used-certificates.ts';

const READ_MS = 10_000;
/** Enough to hash a database of some GiB. */
const HASH_MS = 5 * 60_000;

/** The part of an etcd client that a backup uses. */
export interface BackupEtcd extends Pick<EtcdClient, 'get' | 'list' | 'keys'> {
  readonly maintenance: Pick<EtcdClient['maintenance'], 'hash' | 'snapshot'>;
}

/** Ports and inputs of a backup. */
export interface BackupTaskOptions {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly agentVersion: string;
  readonly clusterId: string;
  readonly nodeId: string;
  /** Ed25519 key of this machine (PKCS#8 PEM), which signs the backup. */
  readonly keyPem: Secret<string>;
  /** Directory in which this node records the certificates that it has used. */
  readonly usedCertificates: string;
  /** Raw Ed25519 keys of the owners, from this machine's provisioning. */
  readonly ownerKeys: readonly Uint8Array[];
  /** Paths of the keys that control planes share, by name. Files that do not exist are left out. */
  readonly keyFiles: Readonly<Record<string, string>>;
  /** Clients with root credentials of both local members, while they run. */
  readonly etcdMembers: () => { readonly state: BackupEtcd; readonly kubernetes: BackupEtcd } | undefined;
}

type Etcds = NonNullable<ReturnType<BackupTaskOptions['etcdMembers']>>;
type EtcdName = keyof Etcds;

/** What an owner orders. */
export interface BackupOrder {
  readonly certificate: Uint8Array;
  /** What a workspace needs, encrypted by the owner; empty if there is none. */
  readonly workspace: Uint8Array;
}

/** A function that takes one backup at a time. @throws BackupError, BackupTaskError, from the stream */
export function createBackupTask(
  options: BackupTaskOptions,
): (order: BackupOrder, signal: AbortSignal) => AsyncGenerator<Uint8Array> {
  let isBusy = false;
  return async function* (order, signal) {
    if (isBusy)
      throw new BackupTaskError(
        'backup-node-busy',
        'taking a backup: this node is already taking another backup',
      );
    isBusy = true;
    try {
      yield* takeBackup(options, order, signal);
    } finally {
      isBusy = false;
    }
  };
}

async function* takeBackup(
  options: BackupTaskOptions,
  order: BackupOrder,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { clock, clusterId, nodeId, ownerKeys, keyPem, etcdMembers } = options;
  const certificate = parseBackupCertificate(order.certificate);
  const nowMs = Math.round(clock.nowMs());
  verifyBackupCertificate(certificate, { clusterId, owners: ownerKeys, nowMs });
  refuseOtherWorkspace(certificate, order.workspace);
  const etcds = etcdMembers();
  if (etcds === undefined)
    throw new BackupTaskError('backup-node-not-control-plane', `taking a backup: ${nodeId} runs no etcd`);
  const mismatch = (own: string): BackupTaskError =>
    new BackupTaskError(
      'backup-node-mismatch',
      `taking a backup: the certificate is for ${certificate.nodeId} in epoch ${certificate.epoch}, this is ${own}`,
    );
  if (certificate.nodeId !== nodeId) throw mismatch(nodeId);
  await claimCertificate(options, options.usedCertificates, certificate);
  const cluster = await readCluster(etcds.state, signal);
  if (certificate.epoch !== cluster.epoch) throw mismatch(`${nodeId} in epoch ${cluster.epoch}`);
  const watches = {
    state: await SnapshotWatch.start(etcds.state, signal),
    kubernetes: await SnapshotWatch.start(etcds.kubernetes, signal),
  };
  const { state, kubernetes } = watches;
  const header: BackupHeader = {
    ...{ clusterId, clusterName: cluster.clusterName, epoch: cluster.epoch, takenMs: nowMs, certificate },
    revisions: { state: String(state.revision), kubernetes: String(kubernetes.revision) },
    versions: { agent: options.agentVersion, kubernetes: cluster.kubernetesVersion },
    signer: createPublicKey(keyPem.reveal()).export({ format: 'der', type: 'spki' }).toString('base64'),
  };
  yield* writeBackup(
    header,
    partsOf(options, { etcds, watches, cluster, workspace: order.workspace, signal }),
    keyPem,
  );
}

interface ClusterFacts {
  readonly epoch: number;
  readonly clusterName: string;
  readonly kubernetesVersion: string;
  readonly bundleManifest: string;
  /** The stored `cluster.yaml`; empty if none is stored. */
  readonly configuration: Uint8Array;
}

interface Taking {
  readonly etcds: Etcds;
  readonly watches: Readonly<Record<EtcdName, SnapshotWatch>>;
  readonly cluster: ClusterFacts;
  readonly workspace: Uint8Array;
  readonly signal: AbortSignal;
}

function partsOf(options: BackupTaskOptions, taking: Taking): readonly BackupPart[] {
  const { etcds, watches, cluster, workspace, signal } = taking;
  const snapshot = (name: EtcdName): AsyncIterable<Uint8Array> => etcds[name].maintenance.snapshot(signal);
  return [
    ...(workspace.length === 0 ? [] : [{ name: 'workspace', content: later(() => workspace) } as const]),
    { name: 'configuration', content: later(() => cluster.configuration) },
    { name: 'bundle', content: later(() => Buffer.from(cluster.bundleManifest, 'utf8')) },
    { name: 'shared-keys', content: later(() => readKeys(options)) },
    { name: 'state-etcd', content: snapshot('state') },
    { name: 'kubernetes-etcd', content: snapshot('kubernetes') },
    {
      name: 'facts',
      content: later(async () =>
        encodeFacts({
          state: await watches.state.facts(signal),
          kubernetes: await watches.kubernetes.facts(signal),
        }),
      ),
    },
  ];
}

/** The owner signs what the part `workspace` is, so that nobody else can put one into a backup. */
function refuseOtherWorkspace({ workspaceSha256 }: BackupCertificate, workspace: Uint8Array): void {
  const found = workspace.length === 0 ? undefined : createHash('sha256').update(workspace).digest('hex');
  if (found !== workspaceSha256)
    throw new BackupError(
      'backup-certificate-invalid',
      'taking a backup: the workspace that came with it is not the one that the owner signed',
    );
}

async function* later(read: () => Uint8Array | Promise<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield await read();
}

async function readCluster(etcd: BackupEtcd, signal: AbortSignal): Promise<ClusterFacts> {
  const get = (key: string) => etcd.get(CLUSTER_PREFIX + key, { signal, timeoutMs: READ_MS });
  const [cluster, settings, configuration] = [
    await get(CLUSTER_KEY),
    await get(SETTINGS_KEY),
    await get(CONFIGURATION_KEY),
  ];
  if (cluster === undefined || settings === undefined)
    throw new BackupTaskError('backup-node-not-control-plane', 'taking a backup: etcd has no cluster yet');
  const { epoch, clusterName } = records.cluster.decode(cluster.key, cluster.value);
  const { kubernetesVersion, bundleManifest } = records.settings.decode(settings.key, settings.value);
  const document =
    configuration && records.configuration.decode(configuration.key, configuration.value).document;
  return {
    ...{ epoch, clusterName, kubernetesVersion, bundleManifest },
    configuration: Buffer.from(document ?? '', 'base64'),
  };
}

/** JSON: the text of each key file by its name. */
async function readKeys({ files, keyFiles }: BackupTaskOptions): Promise<Uint8Array> {
  const texts: Record<string, string> = {};
  for (const [name, path] of Object.entries(keyFiles)) {
    const text = await readText(files, path);
    if (text !== undefined) texts[name] = text;
  }
  return Buffer.from(JSON.stringify({ version: 1, files: texts }), 'utf8');
}

/**
 * The hash of an etcd at the revision before its snapshot. etcd hashes what it has not compacted, so the hash is taken before and
 * after: if both are of the same compaction, so is the snapshot in between.
 */
class SnapshotWatch {
  readonly revision: bigint;
  readonly #etcd: BackupEtcd;
  readonly #before: bigint;
  readonly #objects: Readonly<Record<string, number>>;

  private constructor(
    etcd: BackupEtcd,
    at: Pick<SnapshotWatch, 'revision'> & {
      readonly compactRevision: bigint;
      readonly objects: Readonly<Record<string, number>>;
    },
  ) {
    this.#etcd = etcd;
    this.revision = at.revision;
    this.#before = at.compactRevision;
    this.#objects = at.objects;
  }

  static async start(etcd: BackupEtcd, signal: AbortSignal): Promise<SnapshotWatch> {
    // Linearizable: every write that was acknowledged before is in the snapshot.
    const { revision } = await etcd.list(`${CLUSTER_PREFIX}none/`, { signal, timeoutMs: READ_MS });
    const { compactRevision } = await etcd.maintenance.hash(revision, { signal, timeoutMs: HASH_MS });
    const objects = new ObjectCounts();
    for await (const keys of etcd.keys('/', revision, { signal, timeoutMs: READ_MS })) objects.add(keys);
    return new SnapshotWatch(etcd, { revision, compactRevision, objects: objects.byResource });
  }

  async facts(signal: AbortSignal): Promise<EtcdFacts> {
    const revision = String(this.revision);
    try {
      const after = await this.#etcd.maintenance.hash(this.revision, { signal, timeoutMs: HASH_MS });
      const facts = { revision, objects: this.#objects };
      return after.compactRevision === this.#before ? { ...facts, hash: after.hash } : facts;
    } catch {
      signal.throwIfAborted();
      return { revision, objects: this.#objects }; // etcd has compacted this revision meanwhile
    }
  }
}
