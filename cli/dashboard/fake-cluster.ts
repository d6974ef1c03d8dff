import { setTimeout as delay } from 'node:timers/promises';
import { extendChain, EMPTY_CHAIN } from '../../internal/audit/index.ts';
import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';
import { EtcdError } from '../../internal/etcd/index.ts';
import { fingerprintOfKey, pubKeyDerOf } from '../../internal/pki/index.ts';
import type { Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { TraceFact_Outcome, JoinState } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { fakeNode } from './model/fake-observations.ts';

class DeniedError extends errorClass(
  defineErrors({ 'curator-denied': fault.operator.refused('The role does not allow this call.', 'Ask.') }),
) {}

/** How the fake cluster answers; a test may change it at any time. */
export interface FakeCluster {
  nodes: readonly Node[];
  /** Calls that the cluster refuses to the caller, by the name of the method. */
  readonly refused: Set<string>;
  /** Lines that `streamLogs` sends. */
  logLines: readonly string[];
  /** If false, every call fails like that of a curator whose etcd has lost its quorum. */
  hasQuorum: boolean;
}

/** A cluster of `count` nodes behind a real curator endpoint, as an owner sees it. Dispose it after the test. */
export async function createFakeCluster(count: number) {
  const nowMs = Date.now();
  const cluster: FakeCluster = {
    nodes: Array.from({ length: count }, (_, index) => movedTo(fakeNode(index), nowMs)),
    refused: new Set(),
    logLines: ['one', 'two'],
    hasQuorum: true,
  };
  const check = (method: string): void => {
    if (!cluster.hasQuorum) throw new EtcdError('etcd-unavailable', 'reading records');
    if (cluster.refused.has(method)) throw new DeniedError('curator-denied', `${method} needs another role`);
  };
  const etcd = {
    ...{
      dbSizeBytes: 3_000_000n,
      quotaBytes: 2_000_000_000n,
      hasLeader: true,
      isFull: false,
      isCorrupt: false,
    },
    members: cluster.nodes.slice(0, 3).map(({ name }) => ({ name, isLearner: false, started: true })),
  };
  const directory = (endpoint: string) => [{ nodeId: 'n', name: 'n1', curatorEndpoint: endpoint }];
  let cpu = 0;
  const harness = await createCuratorHarness(
    {
      getClusterInfo: async () => {
        check('getClusterInfo');
        const [createdMs, at] = [BigInt(nowMs - 86_400_000), directory(harness.endpoint)];
        return { clusterName: 'prod', clusterId: harness.clusterId, createdMs, etcd, directory: at };
      },
      listNodes: async () => {
        check('listNodes');
        return { nodes: [...cluster.nodes] };
      },
      watchNodes: async function* (_request, { signal }) {
        let sent: readonly Node[] | undefined;
        for (; !signal.aborted; await delay(20, undefined, { signal }).catch(() => undefined)) {
          check('watchNodes');
          if (sent !== cluster.nodes) yield { relist: true, nodes: [...cluster.nodes], caughtUp: true };
          sent = cluster.nodes;
        }
      },
    },
    {
      listJoins: async () => {
        check('listJoins');
        return {
          joins: [
            {
              ...{
                joinId: 'node-new',
                state: JoinState.PENDING,
                hostname: 'machine-9',
                address: '192.0.2.99',
              },
              ...{
                code: 'join-awaiting-approval',
                message: 'nobody has approved it',
                firstSeenMs: BigInt(nowMs),
              },
            },
          ],
        };
      },
      getKeys: async () => ({ stage: { generation: 1n, phase: 'done' } }),
      listOperators: async () => ({
        operators: [
          { name: 'ann', role: 'viewer', fingerprint: fingerprintOfKey(pubKeyDerOf(harness.ownerKey)) },
        ],
      }),
      listAudit: async function* ({ afterSeq }) {
        check('listAudit');
        const entries = auditEntries(nowMs);
        for (const { seq, record } of entries)
          if (BigInt(seq) > afterSeq)
            yield { message: { case: 'entry', value: { seq: BigInt(seq), record } } };
        const last = entries.at(-1)!;
        yield { message: { case: 'head', value: { seq: BigInt(last.seq), hash: last.hash } } };
      },
      getTrace: async ({ subject }) => ({ nodeName: subject, joinId: 'node-1', facts: traceFacts(nowMs) }),
    },
    {
      getMetrics: async () => {
        check('getMetrics');
        cpu += 1;
        return { text: metricsText(cpu) };
      },
      streamLogs: async function* (_request, { signal }) {
        check('streamLogs');
        yield { lines: Buffer.from(cluster.logLines.map((line) => `${line}\n`).join('')) };
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      },
    },
  );
  return Object.assign(cluster, { harness, [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose]() });
}

/** Certificates of the fake nodes end relative to a fixed time. */
function movedTo(node: Node, nowMs: number): Node {
  for (const each of node.status?.certificates ?? [])
    each.notAfterMs += BigInt(nowMs - Date.UTC(2026, 0, 1, 12));
  for (const each of node.status?.runnables ?? []) each.sinceMs = BigInt(nowMs - 3_600_000);
  return node;
}

function auditEntries(nowMs: number) {
  let head = EMPTY_CHAIN;
  return ['DecideJoin', 'SetNodeRoles', 'UpdateNodeLabels'].map((method, index) => {
    const facts = {
      timeMs: nowMs - 60_000 * (3 - index),
      caller: 'operator:ann',
      method,
      subject: `n${index + 1}`,
    };
    const next = extendChain(head, { ...facts, detail: { index } });
    head = next.head;
    return { ...next.head, record: next.record };
  });
}

function traceFacts(nowMs: number) {
  const { PASS, WAIT } = TraceFact_Outcome;
  const fact = (side: string, name: string, afterMs: number, outcome = PASS) => ({
    ...{ side, name, outcome, actual: 'as expected' },
    timeMs: BigInt(nowMs - 120_000 + afterMs),
  });
  return [
    fact('machine', 'dns', 0),
    fact('machine', 'path', 400),
    fact('cluster', 'clock', 1_200),
    fact('cluster', 'evidence', 1_900),
    fact('cluster', 'policy', 2_000, WAIT),
    fact('cluster', 'slot', 45_000),
    fact('machine', 'commit', 47_000),
  ];
}

/** A page of metrics whose processors are a third busy. */
function metricsText(reading: number): string {
  const bucket = (le: string, count: number): string =>
    `etcd_disk_wal_fsync_duration_seconds_bucket{etcd="state",le="${le}"} ${count}`;
  return [
    `cluster_node_cpu_busy_seconds_total ${reading}`,
    `cluster_node_cpu_seconds_total ${reading * 3}`,
    'cluster_node_memory_bytes 8000000000',
    'cluster_node_memory_available_bytes 6000000000',
    'cluster_filesystem_size_bytes{path="/var/lib/cluster"} 100000000000',
    'cluster_filesystem_available_bytes{path="/var/lib/cluster"} 60000000000',
    'etcd_server_has_leader{etcd="state"} 1',
    ...[bucket('0.002', 90 * reading), bucket('0.004', 100 * reading), bucket('+Inf', 100 * reading)],
    'etcd_network_peer_round_trip_time_seconds_bucket{etcd="state",To="b",le="0.0004"} 10',
    'etcd_network_peer_round_trip_time_seconds_bucket{etcd="state",To="b",le="+Inf"} 10',
    '',
  ].join('\n');
}
