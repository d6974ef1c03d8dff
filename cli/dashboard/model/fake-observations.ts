import { DAY_MS } from '../../../internal/clock/index.ts';
import { create } from '@bufbuild/protobuf';
import {
  NodeHealth,
  NodeRole,
  NodeSchema,
  NodeState,
  Runnable_State,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { nodeViewFrom } from '../../cluster/index.ts';
import { runnableViews } from '../../nodes/index.ts';
import { HistoryRecorder } from './history.ts';
import type { ClusterReading, NodeUsage, ObservedNode, Observations } from './observations.ts';

/** The time of the fake observations. */
export const NOW_MS = Date.UTC(2026, 0, 1, 12);
const GIB = 1024 ** 3;

const RUNNABLES = ['root', 'root.roleserve', 'root.roleserve.kubernetes', 'root.nodestream', 'root.metrics'];

/** A node as a curator sends it. The first three are control planes. */
export function fakeNode(index: number, more: Partial<Node> = {}): Node {
  const isControlPlane = index < 3;
  const runnable = (path: string) => ({
    path,
    state: Runnable_State.HEALTHY,
    sinceMs: BigInt(NOW_MS - 3_600_000),
    restarts: 0,
    idleBecause: '',
  });
  const made = create(NodeSchema, {
    nodeId: `node-${String(index + 1).padStart(32, '0')}`,
    name: `n${index + 1}`,
    state: NodeState.UP,
    roles: isControlPlane
      ? [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER, NodeRole.KUBERNETES_WORKER]
      : [NodeRole.KUBERNETES_WORKER],
    health: NodeHealth.HEALTHY,
    createdMs: BigInt(NOW_MS - 3 * DAY_MS),
    statusUpdatedMs: BigInt(NOW_MS - 60_000),
    status: {
      address: `192.0.2.${(index % 250) + 1}`,
      agentVersion: '0.1.0',
      kubernetesVersion: 'v1.37.2',
      runnables: RUNNABLES.map(runnable),
      certificates: [
        {
          name: '/var/lib/cluster/credentials/node.crt',
          notAfterMs: BigInt(NOW_MS + 4 * DAY_MS + index * 1000),
        },
        { name: 'kubelet client', notAfterMs: BigInt(NOW_MS + 200 * DAY_MS) },
      ],
      ...(isControlPlane && {
        kubernetesEtcd: {
          ...{ dbSizeBytes: 12_000_000n, quotaBytes: 8_000_000_000n, hasLeader: true },
          members: [{ name: 'n1' }, { name: 'n2' }, { name: 'n3' }],
        },
      }),
    },
  });
  return Object.assign(made, more);
}

/** A node as the collector keeps it. */
export function observed(node: Node): ObservedNode {
  return { ...nodeViewFrom(node), runnables: runnableViews(node.status?.runnables ?? [], NOW_MS) };
}

/** What the sources tell about a healthy cluster of `count` nodes, to a viewer, with parts replaced by `more`. */
export function fakeObservations(count: number, more: Partial<Observations> = {}): Observations {
  const nodes = Array.from({ length: count }, (_, index) => observed(fakeNode(index)));
  const etcd = {
    ...{ dbSizeBytes: 3_000_000, quotaBytes: 2 * GIB, hasLeader: true, isFull: false, isCorrupt: false },
    ...{ members: Math.min(3, count), learners: 0 },
  };
  const cluster: ClusterReading = {
    ...{ name: 'prod', createdMs: NOW_MS - 3 * DAY_MS, etcd, pendingJoins: 0, keys: undefined },
    ...{ role: 'viewer', caller: 'ann' },
  };
  const usage: NodeUsage = {
    ...{ cpuShare: 0.25, memoryBytes: 8 * GIB, memoryAvailableBytes: 6 * GIB },
    disks: [{ path: '/var/lib/cluster', sizeBytes: 100 * GIB, availableBytes: 60 * GIB }],
  };
  const history = new HistoryRecorder();
  history.addHealth(nodes, NOW_MS - 600_000);
  for (let at = 40; at >= 0; at--)
    for (const { name } of nodes.slice(0, 3))
      history.addLatencies(
        name,
        { disks: [], stateEtcd: { fsyncMs: 2 + (at % 7), peerRoundTripMs: 0.4 } },
        NOW_MS - at * 15_000,
      );
  return {
    clusterId: '00112233445566778899aabbccddeeff',
    cluster: { value: cluster, readMs: NOW_MS },
    nodes: { value: nodes, readMs: NOW_MS },
    kubernetesEtcd: { ...etcd, dbSizeBytes: 12_000_000, quotaBytes: 8 * GIB },
    joins: { value: [], readMs: NOW_MS },
    decisions: {
      value: [
        {
          ...{ version: 2, seq: 7, previous: '0'.repeat(64), timeMs: NOW_MS - 300_000 },
          ...{ caller: 'operator:ann', method: 'DecideJoin', subject: 'n5', detail: { decision: 'approve' } },
        },
      ],
      readMs: NOW_MS,
    },
    usage: {
      value: new Map(nodes.map(({ name }) => [name, { ok: true, value: usage }])),
      readMs: NOW_MS,
    },
    kubernetes: undefined,
    history,
    ...more,
  };
}
