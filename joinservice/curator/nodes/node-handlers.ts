import type { Clock } from '../../../internal/clock/index.ts';
import { present, put, type KeySpace } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import type { WatchNodesResponse, WatchPosition } from '../../curatorproto/gen/curator_pb.js';
import type { Caller } from '../access/authorize-caller.ts';
import { CuratorError } from '../errors.ts';
import { checkStatus, StatusBudget } from './check-status.ts';
import type { NodeFeed } from './node-feed.ts';
import type { AuthorizedHandlers } from '../access/authorized-handlers.ts';
import { HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, type Heartbeats } from './heartbeats.ts';
import { readCluster } from './read-handlers.ts';
import type { NodeClocks } from './node-clocks.ts';
import { nodeToWire, refuseField } from './node-wire.ts';

/** One frozen object for all nodes, so that it is encoded once. */
const HEARTBEAT_RESPONSE = Object.freeze({
  intervalMs: BigInt(HEARTBEAT_INTERVAL_MS),
  timeoutMs: BigInt(HEARTBEAT_TIMEOUT_MS),
});

type NodeMethods = 'watchNode' | 'watchNodes' | 'updateNodeStatus' | 'heartbeat';

/** Handlers of the calls that nodes make: watches, status and heartbeats. */
export function nodeHandlers(parts: NodeHandlerParts): Pick<AuthorizedHandlers, NodeMethods> {
  const { etcd, clock, heartbeats, clocks } = parts;
  const budget = new StatusBudget(clock);
  return {
    watchNode: ({ nodeId, after }, { signal }) => {
      if (nodeId === '') refuseField('node_id', 'it is empty');
      return watch(parts, { nodeId, after }, signal);
    },
    watchNodes: ({ after }, { signal }) => watch(parts, { nodeId: undefined, after }, signal),
    updateNodeStatus: async ({ status }, { peer, signal }) => {
      const nodeId = selfOf(peer);
      if (status === undefined) refuseField('status', 'it is missing');
      const encoded = checkStatus(status, peer.kind === 'node' ? peer.addresses : []);
      const key = records.status.key(nodeId);
      const base64 = Buffer.from(encoded).toString('base64');
      if ((await records.status.read(etcd, key, signal)).record?.status === base64) return {};
      budget.take(nodeId, base64.length);
      const value = records.status.encode({ version: 1, status: base64, updatedMs: clock.nowMs() });
      await etcd.commit({ when: [present(records.node.key(nodeId))], then: [put(key, value)] }, { signal });
      return {};
    },
    heartbeat: async function* (requests, { peer, signal }) {
      const nodeId = selfOf(peer);
      using nodeClock = clocks.open(nodeId);
      try {
        for await (const { sentMs } of requests) {
          nodeClock.note(sentMs);
          signal.throwIfAborted();
          await heartbeats.renew(nodeId, signal);
          yield HEARTBEAT_RESPONSE;
        }
      } finally {
        heartbeats.forget(nodeId);
      }
    },
  };
}

/** Dependencies of the handlers for nodes. */
export interface NodeHandlerParts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly feed: NodeFeed;
  readonly heartbeats: Heartbeats;
  readonly clocks: Pick<NodeClocks, 'open'>;
}

/**
 * Watches nodes from a position. If the position is of another epoch, etcd was restored since, so the watch
 * ignores it and sends everything.
 */
async function* watch(
  { etcd, feed }: NodeHandlerParts,
  from: { readonly nodeId: string | undefined; readonly after: WatchPosition | undefined },
  signal: AbortSignal,
): AsyncGenerator<WatchMessage> {
  const epoch = BigInt((await readCluster(etcd, signal)).epoch);
  const afterRevision = from.after?.epoch === epoch ? from.after.revision : undefined;
  using subscription = await feed.subscribe({ nodeId: from.nodeId, afterRevision }, signal);
  for (;;) {
    const { relist, nodes, deletedNodeIds, caughtUp, revision } = await subscription.next(signal);
    const message: WatchMessage = {
      relist,
      nodes: nodes.map((node) => nodeToWire(node)),
      deletedNodeIds: [...deletedNodeIds],
      caughtUp,
    };
    yield revision === undefined ? message : { ...message, position: { epoch, revision } };
  }
}

type WatchMessage = Pick<WatchNodesResponse, 'relist' | 'nodes' | 'deletedNodeIds' | 'caughtUp'> & {
  readonly position?: { readonly epoch: bigint; readonly revision: bigint };
};

/** The ID of the calling node, from its certificate: a node reports only about itself. @throws CuratorError `curator-denied` */
function selfOf(caller: Caller): string {
  if (caller.kind !== 'node')
    throw new CuratorError('curator-denied', `cannot report for a node as ${caller.role} ${caller.name}`);
  return caller.nodeId;
}
