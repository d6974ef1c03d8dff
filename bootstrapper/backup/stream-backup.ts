import { createPublicKey } from 'node:crypto';
import {
  encodeFacts,
  encodeObjects,
  OBJECTS_PREFIX,
  writeBackup,
  ObjectCounts,
  type BackupCertificate,
  type BackupFacts,
  type BackupHeader,
  type BackupNode,
  type BackupPart,
  type EtcdFacts,
} from '../../internal/backup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { EtcdError, type EtcdClient } from '../../internal/etcd/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  CLUSTER_KEY,
  CLUSTER_PREFIX,
  CONFIGURATION_KEY,
  NODES_PREFIX,
  parseNodeKey,
  records,
  SETTINGS_KEY,
} from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import type { LowPriority } from '../../internal/platform/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { BackupTaskError } from './errors.ts';
import { databaseRate, joined, paced, type Pace } from './paced.ts';

const READ_MS = 10_000;
/** Long enough to hash a database of some GiB. */
const HASH_MS = 5 * 60_000;

/** The part of an etcd client that a backup uses. */
export interface BackupEtcd extends Pick<EtcdClient, 'get' | 'list' | 'keys' | 'entries'> {
  readonly maintenance: Pick<EtcdClient['maintenance'], 'hash' | 'snapshot' | 'status'>;
}

/** Clients with root credentials of both local members. */
export interface BackupEtcds {
  readonly state: BackupEtcd;
  readonly kubernetes: BackupEtcd;
}
type EtcdName = keyof BackupEtcds;

/** Ports and inputs of every backup that this node takes. */
export interface BackupStreamOptions {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly lowPriority: Pick<LowPriority, 'begin'>;
  readonly agentVersion: string;
  readonly clusterId: string;
  readonly nodeId: string;
  /** Ed25519 key of this machine (PKCS#8 PEM), which signs the backup. */
  readonly keyPem: Secret<string>;
  /** Paths of the keys that control planes share, by name. Files that do not exist are left out. */
  readonly keyFiles: Readonly<Record<string, string>>;
}

/** The content of one backup. */
export interface BackupContent {
  /** Verified by the caller. */
  readonly certificate: BackupCertificate;
  /** The files of a workspace, encrypted by the owner; empty if there are none. */
  readonly workspace: Uint8Array;
  readonly etcds: BackupEtcds;
  /** Receives the data before it is encrypted, in order to prove it. A slow observer slows the backup down. */
  readonly observer?: {
    /** Called before the first byte of a snapshot or of the list of objects is read. */
    begins(part: EtcdName | 'objects'): void;
    snapshot(name: EtcdName, data: Uint8Array): Promise<void>;
    facts(facts: Omit<BackupFacts, 'version'>): void;
  };
}

/**
 * Streams a backup of the cluster from the local etcd members.
 * @throws BackupTaskError `backup-node-mismatch` if the cluster is in another epoch than the certificate
 */
export async function* streamBackup(
  options: BackupStreamOptions,
  content: BackupContent,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { clock, clusterId, nodeId, keyPem } = options;
  const { certificate, etcds } = content;
  using _low = options.lowPriority.begin();
  const nowMs = Math.round(clock.nowMs());
  const cluster = await readCluster(etcds.state, signal);
  if (certificate.epoch !== cluster.epoch)
    throw new BackupTaskError(
      'backup-node-mismatch',
      `taking a backup: the certificate is for epoch ${certificate.epoch}, this is ${nodeId} in epoch ${cluster.epoch}`,
    );
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
  yield* writeBackup(header, partsOf(options, { ...content, watches, cluster, signal }), keyPem);
}

interface ClusterFacts {
  readonly epoch: number;
  readonly clusterName: string;
  readonly kubernetesVersion: string;
  readonly bundleManifest: string;
  /** The stored `cluster.yaml`; empty if none is stored. */
  readonly configuration: Uint8Array;
  readonly nodes: BackupNode[];
}

interface Taking extends BackupContent {
  readonly watches: Readonly<Record<EtcdName, SnapshotWatch>>;
  readonly cluster: ClusterFacts;
  readonly signal: AbortSignal;
}

function partsOf(options: BackupStreamOptions, taking: Taking): readonly BackupPart[] {
  const { clock } = options;
  const { etcds, watches, cluster, workspace, signal, observer } = taking;
  let keys: Uint8Array = new Uint8Array();
  const snapshot = (name: EtcdName): AsyncIterable<Uint8Array> => {
    const begun = afterFirst(etcds[name].maintenance.snapshot(signal), () => watches[name].begun(signal));
    const chunks = paced(joined(begun), lengthOf, paceOf(clock, watches[name], signal));
    if (observer === undefined) return chunks;
    return announced(
      tee(chunks, (data) => observer.snapshot(name, data)),
      () => observer.begins(name),
    );
  };
  return [
    ...(workspace.length === 0 ? [] : [{ name: 'workspace', content: later(() => workspace) } as const]),
    { name: 'configuration', content: later(() => cluster.configuration) },
    { name: 'bundle', content: later(() => Buffer.from(cluster.bundleManifest, 'utf8')) },
    { name: 'shared-keys', content: later(async () => (keys = await readKeys(options))) },
    { name: 'state-etcd', content: snapshot('state') },
    { name: 'kubernetes-etcd', content: snapshot('kubernetes') },
    { name: 'objects', content: announced(objectsOf(clock, taking), () => observer?.begins('objects')) },
    {
      name: 'facts',
      content: later(async () => {
        if (Buffer.compare(await readKeys(options), keys) !== 0)
          throw new BackupTaskError(
            'backup-node-keys-changed',
            'taking a backup: the shared keys were replaced meanwhile; the keys in the backup may not decrypt its data',
          );
        const facts = {
          state: watches.state.facts(),
          kubernetes: watches.kubernetes.facts(),
          nodes: cluster.nodes,
        };
        observer?.facts(facts);
        return encodeFacts(facts);
      }),
    },
  ];
}

/** The objects of Kubernetes that the snapshot has, so that a restored cluster can be compared with them. Called after the snapshot. */
async function* objectsOf(clock: Clock, { etcds, watches, signal }: Taking): AsyncGenerator<Uint8Array> {
  const { kubernetes: etcd } = etcds;
  const { revision: since } = watches.kubernetes;
  const limits = { signal, timeoutMs: READ_MS };
  const { revision } = await etcd.list(`${OBJECTS_PREFIX}none/`, limits);
  yield* encodeObjects({
    since,
    before: etcd.keys(OBJECTS_PREFIX, since, limits),
    after: paced(
      etcd.entries(OBJECTS_PREFIX, revision, limits),
      sizeOfPage,
      paceOf(clock, watches.kubernetes, signal),
    ),
    isCompacted: (error) => error instanceof EtcdError && error.code === 'etcd-compacted',
  });
}

function paceOf(clock: Clock, { sizeBytes }: SnapshotWatch, signal: AbortSignal): Pace {
  return { bytesPerSecond: databaseRate(sizeBytes), clock, signal };
}

function lengthOf(chunk: Uint8Array): number {
  return chunk.length;
}

function sizeOfPage(page: readonly { readonly value: Uint8Array }[]): number {
  return page.reduce((sum, { value }) => sum + value.length, 0);
}

async function* later(read: () => Uint8Array | Promise<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield await read();
}

async function* announced(
  chunks: AsyncIterable<Uint8Array>,
  onBegin: () => void,
): AsyncGenerator<Uint8Array> {
  onBegin();
  yield* chunks;
}

async function* afterFirst(
  chunks: AsyncIterable<Uint8Array>,
  work: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  for await (const chunk of chunks) {
    if (isFirst) await work();
    isFirst = false;
    yield chunk;
  }
}

async function* tee(
  chunks: AsyncIterable<Uint8Array>,
  onChunk: (data: Uint8Array) => Promise<void>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    await onChunk(chunk);
    yield chunk;
  }
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
    nodes: await readNodes(etcd, signal),
  };
}

/** The members of the cluster, without those that are being removed, so that an owner can name them before a restore touches a machine. */
async function readNodes(etcd: BackupEtcd, signal: AbortSignal): Promise<BackupNode[]> {
  const prefix = CLUSTER_PREFIX + NODES_PREFIX;
  const { entries } = await etcd.list(prefix, { signal, timeoutMs: READ_MS });
  return entries
    .map(({ key, value }) => ({ key: key.slice(CLUSTER_PREFIX.length), value }))
    .filter(({ key }) => parseNodeKey(key)?.part === 'record')
    .map(({ key, value }) => records.node.decode(key, value))
    .filter(({ state }) => isMemberState(state))
    .map(({ nodeId, name, roles, admission }) => ({
      ...{ nodeId, name, roles },
      ...(admission && { identity: admission.identity }),
    }));
}

/** JSON: the text of each key file by its name. */
async function readKeys({ files, keyFiles }: BackupStreamOptions): Promise<Uint8Array> {
  const texts: Record<string, string> = {};
  for (const [name, path] of Object.entries(keyFiles)) {
    const text = await readText(files, path);
    if (text !== undefined) texts[name] = text;
  }
  return Buffer.from(JSON.stringify({ version: 1, files: texts }), 'utf8');
}

/**
 * The hash of an etcd at the revision before its snapshot. etcd hashes only what it has not compacted, so the hash is
 * taken before the snapshot and as soon as the snapshot has begun, when its content is fixed. If etcd was not compacted between
 * the two hashes, the hash is also valid for the snapshot.
 */
class SnapshotWatch {
  readonly revision: bigint;
  /** Of the database, with its unused pages. */
  readonly sizeBytes: number;
  readonly #etcd: BackupEtcd;
  readonly #before: bigint;
  readonly #objects: Readonly<Record<string, number>>;
  #hash: number | undefined;

  private constructor(
    etcd: BackupEtcd,
    at: Pick<SnapshotWatch, 'revision' | 'sizeBytes'> & {
      readonly compactRevision: bigint;
      readonly objects: Readonly<Record<string, number>>;
    },
  ) {
    this.#etcd = etcd;
    this.revision = at.revision;
    this.sizeBytes = at.sizeBytes;
    this.#before = at.compactRevision;
    this.#objects = at.objects;
  }

  static async start(etcd: BackupEtcd, signal: AbortSignal): Promise<SnapshotWatch> {
    // Linearizable: every write that was acknowledged before is in the snapshot.
    const { revision } = await etcd.list(`${CLUSTER_PREFIX}none/`, { signal, timeoutMs: READ_MS });
    const { compactRevision } = await etcd.maintenance.hash(revision, { signal, timeoutMs: HASH_MS });
    const { dbSizeBytes: sizeBytes } = await etcd.maintenance.status({ signal, timeoutMs: READ_MS });
    const objects = new ObjectCounts();
    for await (const keys of etcd.keys('/', revision, { signal, timeoutMs: READ_MS })) objects.add(keys);
    return new SnapshotWatch(etcd, { revision, sizeBytes, compactRevision, objects: objects.byResource });
  }

  /** To be called once the snapshot has begun. */
  async begun(signal: AbortSignal): Promise<void> {
    try {
      const after = await this.#etcd.maintenance.hash(this.revision, { signal, timeoutMs: HASH_MS });
      if (after.compactRevision === this.#before) this.#hash = after.hash;
    } catch {
      signal.throwIfAborted(); // otherwise etcd has compacted this revision meanwhile
    }
  }

  facts(): EtcdFacts {
    const facts = { revision: String(this.revision), objects: this.#objects };
    return this.#hash === undefined ? facts : { ...facts, hash: this.#hash };
  }
}
