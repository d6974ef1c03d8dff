import { absent, put, type KeySpace, type Write } from '../../internal/etcd/index.ts';
import {
  CLUSTER_KEY,
  CONFIGURATION_KEY,
  INIT_RESULT_KEY,
  nodeNameKey,
  OWNERSHIP_KEY,
  records,
  SETTINGS_KEY,
  type ClusterRecord,
  type NodeRecord,
  type OwnershipRecord,
  type SettingsRecord,
} from '../../internal/records/index.ts';
import { fingerprintOfKey, nodeIdOf } from '../../internal/pki/index.ts';
import { parseRoles, type Role } from '../../internal/role/index.ts';
import { ConsensusError } from './errors.ts';

/** The content of a new cluster's first records. */
export interface NewCluster {
  readonly clusterId: string;
  readonly clusterName: string;
  /** Certificate of the cluster CA. */
  readonly caPem: string;
  readonly node: {
    readonly name: string;
    /** The address is reserved for this node: no other node gets a certificate for it. */
    readonly address: string;
    /** SubjectPublicKeyInfo, DER. A node is a member if the records contain its key. */
    readonly pubKeyDer: Uint8Array;
    readonly roles: readonly Role[];
    readonly labels: Readonly<Record<string, string>>;
    /** The identity of the machine, if evidence proves one. */
    readonly admission: NodeRecord['admission'];
  };
  /** Kubernetes settings of all nodes. */
  readonly settings: Omit<SettingsRecord, 'version' | 'apiServerSans'> & {
    readonly apiServerSans: readonly string[];
  };
  /** The owners; at least one. */
  readonly owners: readonly [NamedKey, ...NamedKey[]];
  /** The configuration document (cluster.yaml), UTF-8. */
  readonly configuration: Uint8Array;
  /**
   * Owner documents (internal/ownerdocument), each with its record key. Every program that uses a document
   * verifies it.
   */
  readonly documents?: readonly { readonly key: string; readonly bytes: Uint8Array }[];
  readonly nowMs: number;
}

/** A public key of an operator. */
export interface NamedKey {
  readonly name: string;
  /** SubjectPublicKeyInfo, DER. */
  readonly pubKeyDer: Uint8Array;
}

/**
 * Writes the first records of the cluster in one transaction, which creates all of them or none.
 * @param etcd the records of the cluster (`new Namespace(admin, CLUSTER_PREFIX)`)
 * @returns the cluster record, and whether an earlier call had written it
 * @throws ConsensusError `consensus-other-cluster` if the existing records are of another cluster or first
 * node
 */
export async function createClusterRecords(
  etcd: KeySpace,
  created: NewCluster,
  signal: AbortSignal,
): Promise<{ readonly cluster: ClusterRecord; readonly already: boolean }> {
  const nodeId = nodeIdOf(created.node.pubKeyDer);
  const { clusterId, clusterName, caPem, nowMs } = created;
  const cluster: ClusterRecord = {
    version: 1,
    clusterId,
    clusterName,
    epoch: 1,
    caPem,
    createdMs: nowMs,
    firstNodeId: nodeId,
  };
  const result = await etcd.commit(
    {
      when: [absent(CLUSTER_KEY)],
      then: firstWrites(created, cluster),
      otherwiseGet: [CLUSTER_KEY],
    },
    { signal },
  );
  if (result.kind === 'committed') return { cluster, already: false };
  const [entry] = result.found;
  const found = entry === undefined ? undefined : records.cluster.decode(entry.key, entry.value);
  if (found?.clusterId === clusterId && found.firstNodeId === nodeId && found.caPem === caPem)
    return { cluster: found, already: true };
  throw new ConsensusError(
    'consensus-other-cluster',
    `creating cluster ${clusterId}: etcd holds cluster ${found?.clusterId ?? '?'} of node ${found?.firstNodeId ?? '?'}`,
    { details: { clusterId: found?.clusterId } },
  );
}

/** The writes of all first records. */
export function firstWrites(created: NewCluster, cluster: ClusterRecord): Write[] {
  const { nowMs } = created;
  const nodeId = cluster.firstNodeId;
  return [
    records.cluster.put(CLUSTER_KEY, cluster),
    ...nodeWrites(created, nodeId),
    ...created.owners.map((owner) => ownerWrite(owner, nowMs)),
    ...(created.documents ?? []).map(({ key, bytes }) => documentWrite(key, bytes, nowMs)),
    records.settings.put(SETTINGS_KEY, {
      version: 1,
      ...created.settings,
      apiServerSans: [...created.settings.apiServerSans],
    }),
    records.configuration.put(CONFIGURATION_KEY, {
      version: 1,
      document: Buffer.from(created.configuration).toString('base64'),
      updatedMs: nowMs,
      updatedBy: nodeId,
    }),
  ];
}

/**
 * Saves the result of the init, so that every curator can return it to the owner. An existing result is kept.
 */
export async function saveInitResult(
  etcd: KeySpace,
  init: { readonly initId: string; readonly result: Uint8Array },
  signal: AbortSignal,
): Promise<void> {
  const write = records.initResult.put(INIT_RESULT_KEY, {
    version: 1,
    initId: init.initId,
    result: Buffer.from(init.result).toString('base64'),
  });
  await etcd.commit({ when: [absent(INIT_RESULT_KEY)], then: [write] }, { signal });
}

function nodeWrites({ node, nowMs }: NewCluster, nodeId: string) {
  return [
    records.node.put(records.node.key(nodeId), {
      version: 1,
      nodeId,
      name: node.name,
      pubKey: Buffer.from(node.pubKeyDer).toString('base64'),
      state: 'UP',
      roles: [...parseRoles(node.roles)],
      wasControlPlane: true,
      labels: { ...node.labels },
      createdMs: nowMs,
      ...(node.admission === undefined ? {} : { admission: node.admission }),
    }),
    ...(node.admission === undefined ? [] : [identityWrite(node.admission, nodeId)]),
    put(nodeNameKey(node.name), new TextEncoder().encode(nodeId)),
    records.address.put(records.address.key(node.address), { version: 1, nodeId }),
  ];
}

/** Reserves the identity of the machine, so that one machine can only be one node. */
function identityWrite({ identity, akName }: NonNullable<NodeRecord['admission']>, nodeId: string) {
  const record = { version: 1 as const, nodeId, ...(akName === undefined ? {} : { akName }) };
  return records.identity.put(records.identity.key(identity), record);
}

/**
 * Saves the owner's signature that confirms the ownership of the cluster, so that every join service can present it. An
 * existing signature is kept.
 */
export async function saveOwnership(
  etcd: KeySpace,
  ownership: Omit<OwnershipRecord, 'version'>,
  signal: AbortSignal,
): Promise<void> {
  const write = records.ownership.put(OWNERSHIP_KEY, { version: 1, ...ownership });
  await etcd.commit({ when: [absent(OWNERSHIP_KEY)], then: [write] }, { signal });
}

/** Reads the saved signature of the owner (base64). undefined until the owner acknowledges the init. */
export async function readOwnership(etcd: KeySpace, signal: AbortSignal): Promise<string | undefined> {
  return (await records.ownership.read(etcd, OWNERSHIP_KEY, signal)).record?.signature;
}

function documentWrite(key: string, bytes: Uint8Array, nowMs: number) {
  const document = Buffer.from(bytes).toString('base64');
  return records.document.put(key, { version: 1, document, recordedMs: nowMs, recordedBy: 'init' });
}

function ownerWrite(owner: NamedKey, nowMs: number) {
  const fingerprint = fingerprintOfKey(owner.pubKeyDer);
  return records.operator.put(records.operator.key(fingerprint), {
    version: 1,
    name: owner.name,
    fingerprint,
    role: 'owner',
    createdMs: nowMs,
  });
}
