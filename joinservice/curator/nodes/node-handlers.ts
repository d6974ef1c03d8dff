import { toBinary } from '@bufbuild/protobuf';
import type { Clock } from '../../../internal/clock/index.ts';
import { present, put, type KeySpace } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import {
  NodeStatusSchema,
  type WatchNodesResponse,
  type WatchPosition,
} from '../../curatorproto/gen/curator_pb.js';
import type { Caller } from '../access/authorize-caller.ts';
import { CuratorError } from '../errors.ts';
import type { NodeFeed } from './node-feed.ts';
import type { AuthorizedHandlers } from '../access/authorized-handlers.ts';
import { HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, type Heartbeats } from './heartbeats.ts';
import { readCluster } from './read-handlers.ts';
import { nodeToWire, refuseField } from './node-wire.ts';

/** Frozen: it is the same for all, and encoded once. */
const BEAT_ANSWER = Object.freeze({
  intervalMs: BigInt(HEARTBEAT_INTERVAL_MS),
  timeoutMs: BigInt(HEARTBEAT_TIMEOUT_MS),
});
const MAX_STATUS_BYTES = 128 * 1024;

type NodeMethods = 'watchNode' | 'watchNodes' | 'updateNodeStatus' | 'heartbeat';

/** Calls that nodes make all the time: what they watch, and what they say about themselves. */
export function nodeHandlers(parts: NodeHandlerParts): Pick<AuthorizedHandlers, NodeMethods> {
  const { etcd, clock, heartbeats } = parts;
  return {
    watchNode: ({ nodeId, after }, { signal }) => {
      if (nodeId === '') refuseField('node_id', 'it is empty');
      return watch(parts, { nodeId, after }, signal);
    },
    watchNodes: ({ after }, { signal }) => watch(parts, { nodeId: undefined, after }, signal),
    updateNodeStatus: async ({ status }, { peer, signal }) => {
      const nodeId = selfOf(peer);
      if (status === undefined) refuseField('status', 'it is missing');
      const said = toBinary(NodeStatusSchema, status);
      if (said.length > MAX_STATUS_BYTES)
        refuseField('status', `${said.length} bytes, at most ${MAX_STATUS_BYTES}`);
      const key = records.status.key(nodeId);
      const encoded = Buffer.from(said).toString('base64');
      const before = await etcd.get(key, { signal });
      if (before !== undefined && records.status.decode(key, before.value).status === encoded) return {};
      const value = records.status.encode({ version: 1, status: encoded, updatedMs: clock.nowMs() });
      await etcd.commit({ when: [present(records.node.key(nodeId))], then: [put(key, value)] }, { signal });
      return {};
    },
    heartbeat: async function* (requests, { peer, signal }) {
      const nodeId = selfOf(peer);
      try {
        for await (const _ of requests) {
          signal.throwIfAborted();
          await heartbeats.renew(nodeId, signal);
          yield BEAT_ANSWER;
        }
      } finally {
        heartbeats.forget(nodeId);
      }
    },
  };
}

export interface NodeHandlerParts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly feed: NodeFeed;
  readonly heartbeats: Heartbeats;
}

/** A position of another epoch means nothing: etcd was restored, and everything is told anew. */
async function* watch(
  { etcd, feed }: NodeHandlerParts,
  from: { readonly nodeId: string | undefined; readonly after: WatchPosition | undefined },
  signal: AbortSignal,
): AsyncGenerator<Told> {
  const epoch = BigInt((await readCluster(etcd, signal)).epoch);
  const afterRevision = from.after?.epoch === epoch ? from.after.revision : undefined;
  using subscription = await feed.subscribe({ nodeId: from.nodeId, afterRevision }, signal);
  for (;;) {
    const { relist, nodes, deletedNodeIds, caughtUp, revision } = await subscription.next(signal);
    const told: Told = {
      relist,
      nodes: nodes.map(nodeToWire),
      deletedNodeIds: [...deletedNodeIds],
      caughtUp,
    };
    yield revision === undefined ? told : { ...told, position: { epoch, revision } };
  }
}

type Told = Pick<WatchNodesResponse, 'relist' | 'nodes' | 'deletedNodeIds' | 'caughtUp'> & {
  readonly position?: { readonly epoch: bigint; readonly revision: bigint };
};

/** A node may speak about itself only; which node it is, its certificate says. */
function selfOf(caller: Caller): string {
  if (caller.kind !== 'node')
    throw new CuratorError('curator-denied', `speaking for a node as ${caller.role} ${caller.name}`);
  return caller.nodeId;
}
