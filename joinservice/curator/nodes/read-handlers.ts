import type { KeySpace } from '../../../internal/etcd/index.ts';
import {
  CLUSTER_KEY,
  CONFIGURATION_KEY,
  INIT_RESULT_KEY,
  OWNERSHIP_KEY,
  records,
  type ClusterRecord,
} from '../../../internal/records/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import { CuratorError } from '../errors.ts';
import type { AuthorizedHandlers } from '../access/authorized-handlers.ts';
import type { NodeClocks } from './node-clocks.ts';
import type { NodeFeed } from './node-feed.ts';
import type { NodeStore } from './node-store.ts';
import { storedConfiguration } from '../changes/stored-configuration.ts';
import { nodeStatusOf, nodeToWire, refuseField, type NodeView } from './node-wire.ts';

type ReadMethods =
  'checkHealth' | 'getClusterInfo' | 'getNode' | 'listNodes' | 'getConfiguration' | 'getInitResult';

/** Handlers of the calls that read. All reads are linearizable. */
export function readHandlers(parts: ReadHandlerParts): Pick<AuthorizedHandlers, ReadMethods> {
  const { etcd, nodes, feed } = parts;
  const toWire = (view: NodeView) => nodeToWire(view, feed.silentSinceMs(view.record.nodeId));
  return {
    checkHealth: async ({ withClocks }, { peer, signal }) => {
      const { epoch } = await readCluster(etcd, signal);
      const offsets = withClocks && peer.kind === 'operator' ? parts.clocks.offsets() : [];
      const clocks = offsets.map(({ nodeId, offsetMs }) => ({ nodeId, offsetMs: BigInt(offsetMs) }));
      return { nodeId: parts.nodeId, epoch: BigInt(epoch), clocks };
    },
    getClusterInfo: ({ probeMembers }, { signal }) => clusterInfo(parts, probeMembers, signal),
    getNode: async ({ node }, { signal }) => ({ node: toWire(await nodes.get(node, signal)) }),
    listNodes: async (_request, { signal }) => {
      const { epoch } = await readCluster(etcd, signal);
      const listed = await nodes.list(signal);
      return {
        nodes: listed.nodes.map(toWire),
        position: { epoch: BigInt(epoch), revision: listed.revision },
      };
    },
    getConfiguration: (_request, { signal }) => readConfiguration(etcd, signal),
    getInitResult: ({ initId }, { signal }) => readInitResult(etcd, initId, signal),
  };
}

async function clusterInfo(
  { etcd, nodes, facts }: ReadHandlerParts,
  probesMembers: boolean,
  signal: AbortSignal,
) {
  const cluster = await readCluster(etcd, signal);
  const listed = await nodes.list(signal);
  return {
    clusterId: cluster.clusterId,
    clusterName: cluster.clusterName,
    epoch: BigInt(cluster.epoch),
    clusterCaPem: cluster.caPem,
    createdMs: BigInt(cluster.createdMs),
    directory: listed.nodes.flatMap(directoryEntry),
    etcd: await facts.etcdStatus(signal, { probesMembers }),
    certificates: facts.certificates.map(({ name, notAfterMs }) => ({
      name,
      notAfterMs: BigInt(notAfterMs),
    })),
  };
}

async function readConfiguration(etcd: KeySpace, signal: AbortSignal) {
  const entry = await etcd.get(CONFIGURATION_KEY, { signal });
  if (entry === undefined) throw noCluster('reading the configuration');
  const { document, updatedMs, updatedBy } = storedConfiguration(entry);
  return { document, revision: entry.modRevision, updatedMs: BigInt(updatedMs), updatedBy };
}

/** The result of `cluster init`, with the ownership signature once the owner has acknowledged the cluster. */
async function readInitResult(etcd: KeySpace, initId: string, signal: AbortSignal) {
  const { record } = await records.initResult.read(etcd, INIT_RESULT_KEY, signal);
  if (record === undefined) throw noCluster('reading the result of the init');
  if (initId !== '' && initId !== record.initId)
    refuseField('init_id', `this cluster was created by init ${record.initId}`);
  const { record: ownership } = await records.ownership.read(etcd, OWNERSHIP_KEY, signal);
  return {
    initId: record.initId,
    result: bytesFrom(record.result),
    ownershipSignature: bytesFrom(ownership?.signature ?? ''),
  };
}

function bytesFrom(base64: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

/** The cluster record. Reading it also proves that etcd is available. @throws CuratorError `curator-no-cluster` */
export async function readCluster(etcd: KeySpace, signal: AbortSignal): Promise<ClusterRecord> {
  const { record } = await records.cluster.read(etcd, CLUSTER_KEY, signal);
  if (record === undefined) throw noCluster('reading the cluster record');
  return record;
}

function noCluster(doing: string): CuratorError {
  return new CuratorError('curator-no-cluster', `${doing}: not found in etcd`);
}

function directoryEntry(view: NodeView) {
  const { nodeId, name, state, roles } = view.record;
  const curatorEndpoint = nodeStatusOf(view)?.curatorEndpoint ?? '';
  if (state !== 'UP' || !isControlPlane(roles) || curatorEndpoint === '') return [];
  return [{ nodeId, name, curatorEndpoint }];
}

/** Dependencies of the handlers for reading. */
export interface ReadHandlerParts {
  readonly etcd: KeySpace;
  readonly nodes: NodeStore;
  /** Since when nodes are silent; all else is read from etcd. */
  readonly feed: Pick<NodeFeed, 'silentSinceMs'>;
  readonly clocks: Pick<NodeClocks, 'offsets'>;
  /** The node that this curator runs on. */
  readonly nodeId: string;
  readonly facts: CuratorFacts;
}

/**
 * Facts that are not in the records of the cluster. A curator takes them from its own configuration, or asks its etcd
 * member at each call.
 */
export interface CuratorFacts {
  readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
  /** @param options.probesMembers whether to ask each member whether it answers */
  etcdStatus(
    signal: AbortSignal,
    options: { readonly probesMembers: boolean },
  ): Promise<{
    readonly dbSizeBytes: bigint;
    readonly quotaBytes: bigint;
    readonly hasLeader: boolean;
    readonly isFull: boolean;
    readonly isCorrupt: boolean;
    readonly members: EtcdMemberFacts[];
  }>;
  /** The members of the state etcd. */
  etcdMembers(signal: AbortSignal): Promise<EtcdMemberFacts[]>;
}

interface EtcdMemberFacts {
  /** The ID of the node of this etcd member; empty before the member's first start. */
  readonly name: string;
  readonly isLearner: boolean;
  readonly started: boolean;
  /** Whether the member answers; absent if it was not asked. */
  readonly answers?: boolean;
}
