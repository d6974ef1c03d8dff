import { absent, put, type KeySpace } from '../../internal/etcd/index.ts';
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

/** The first facts of a cluster. */
export interface NewCluster {
  readonly clusterId: string;
  readonly clusterName: string;
  /** The cluster CA's certificate. */
  readonly caPem: string;
  readonly node: {
    readonly name: string;
    /** SubjectPublicKeyInfo, DER: the key on record is the membership. */
    readonly pubKeyDer: Uint8Array;
    readonly roles: readonly Role[];
    readonly labels: Readonly<Record<string, string>>;
    /** Which machine it is, as far as it can be told. */
    readonly admission: NodeRecord['admission'];
  };
  /** How every node runs Kubernetes. */
  readonly settings: Omit<SettingsRecord, 'version' | 'apiServerSans'> & {
    readonly apiServerSans: readonly string[];
  };
  /** SubjectPublicKeyInfo, DER, of each owner by name; at least one. */
  readonly owners: readonly [NamedKey, ...NamedKey[]];
  /** The operator's configuration document. */
  readonly configuration: Uint8Array;
  /** What the owner signed (internal/ownerdocument), each with its key; verified by whoever acts on it. */
  readonly documents?: readonly { readonly key: string; readonly bytes: Uint8Array }[];
  readonly nowMs: number;
}

export interface NamedKey {
  readonly name: string;
  readonly pubKeyDer: Uint8Array;
}

/**
 * Writes the cluster's first records in one create-only transaction: all of them or none, once.
 * @param etcd the cluster's part of etcd (`new Namespace(admin, CLUSTER_PREFIX)`)
 * @returns the cluster on record and whether an earlier run had written it
 * @throws `consensus-other-cluster` when another cluster or another first node is there
 */
export async function createClusterRecords(
  etcd: KeySpace,
  birth: NewCluster,
  signal: AbortSignal,
): Promise<{ readonly cluster: ClusterRecord; readonly already: boolean }> {
  const nodeId = nodeIdOf(birth.node.pubKeyDer);
  const { clusterId, clusterName, caPem, nowMs } = birth;
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
      then: [
        put(CLUSTER_KEY, records.cluster.encode(cluster)),
        ...nodeWrites(birth, nodeId),
        ...birth.owners.map((owner) => ownerWrite(owner, nowMs)),
        ...(birth.documents ?? []).map(({ key, bytes }) => documentWrite(key, bytes, nowMs)),
        put(
          SETTINGS_KEY,
          records.settings.encode({
            version: 1,
            ...birth.settings,
            apiServerSans: [...birth.settings.apiServerSans],
          }),
        ),
        put(
          CONFIGURATION_KEY,
          records.configuration.encode({
            version: 1,
            document: Buffer.from(birth.configuration).toString('base64'),
            updatedMs: nowMs,
            updatedBy: nodeId,
          }),
        ),
      ],
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

/** Keeps the init's outcome where every curator can answer it. The same again is fine; the first one stays. */
export async function saveInitResult(
  etcd: KeySpace,
  outcome: { readonly initId: string; readonly result: Uint8Array },
  signal: AbortSignal,
): Promise<void> {
  const value = records.initResult.encode({
    version: 1,
    initId: outcome.initId,
    result: Buffer.from(outcome.result).toString('base64'),
  });
  await etcd.commit({ when: [absent(INIT_RESULT_KEY)], then: [put(INIT_RESULT_KEY, value)] }, { signal });
}

function nodeWrites({ node, nowMs }: NewCluster, nodeId: string) {
  return [
    put(
      records.node.key(nodeId),
      records.node.encode({
        version: 1,
        nodeId,
        name: node.name,
        pubKey: Buffer.from(node.pubKeyDer).toString('base64'),
        state: 'UP',
        roles: [...parseRoles(node.roles)],
        labels: { ...node.labels },
        createdMs: nowMs,
        ...(node.admission === undefined ? {} : { admission: node.admission }),
      }),
    ),
    ...(node.admission === undefined ? [] : [identityWrite(node.admission, nodeId)]),
    put(nodeNameKey(node.name), new TextEncoder().encode(nodeId)),
  ];
}

/** One membership per machine, also of the first one. */
function identityWrite({ identity, akName }: NonNullable<NodeRecord['admission']>, nodeId: string) {
  const record = { version: 1 as const, nodeId, ...(akName === undefined ? {} : { akName }) };
  return put(records.identity.key(identity), records.identity.encode(record));
}

/** Whose cluster it is, where every join service can show it. The first signature stays. */
export async function saveOwnership(
  etcd: KeySpace,
  ownership: Omit<OwnershipRecord, 'version'>,
  signal: AbortSignal,
): Promise<void> {
  const value = records.ownership.encode({ version: 1, ...ownership });
  await etcd.commit({ when: [absent(OWNERSHIP_KEY)], then: [put(OWNERSHIP_KEY, value)] }, { signal });
}

/** The owner's signature that is on record, base64: by an acknowledgement, or told to a curator. */
export async function readOwnership(etcd: KeySpace, signal: AbortSignal): Promise<string | undefined> {
  const entry = await etcd.get(OWNERSHIP_KEY, { signal });
  return entry === undefined ? undefined : records.ownership.decode(entry.key, entry.value).signature;
}

function documentWrite(key: string, bytes: Uint8Array, nowMs: number) {
  const document = Buffer.from(bytes).toString('base64');
  return put(key, records.document.encode({ version: 1, document, recordedMs: nowMs, recordedBy: 'init' }));
}

function ownerWrite(owner: NamedKey, nowMs: number) {
  const fingerprint = fingerprintOfKey(owner.pubKeyDer);
  return put(
    records.operator.key(fingerprint),
    records.operator.encode({ version: 1, name: owner.name, fingerprint, role: 'owner', createdMs: nowMs }),
  );
}
