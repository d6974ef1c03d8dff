import type { AuditRecord } from '../../../internal/records/index.ts';
import type { CuratorPart, KubernetesPart, NodeView } from '../../cluster/index.ts';
import type { JoinView, RunnableView } from '../../nodes/index.ts';

/**
 * What one source told last. A source fails on its own: the last value stays, with the error and since when it fails, except
 * that a source that the cluster refuses to this caller keeps nothing.
 */
export interface Reading<T> {
  readonly value?: T;
  /** When the value was read. */
  readonly readMs?: number;
  readonly failure?: Failure;
}

/** Why a source cannot be read now. */
export interface Failure {
  readonly text: string;
  readonly sinceMs: number;
  /** The cluster refuses this source to the caller. */
  readonly isRefused: boolean;
  /** Whether curators answer, but etcd has no quorum. */
  readonly isQuorumLost?: boolean;
}

/** A member of the cluster with what its agent reports. */
export interface ObservedNode extends NodeView {
  readonly runnables: readonly RunnableView[];
}

/** What a curator tells about the cluster itself; `CuratorPart` has the nodes too. */
export interface ClusterReading extends Omit<CuratorPart, 'quorum' | 'nodes' | 'kubernetesEtcd'> {
  /** "viewer", "operator" or "owner"; empty if the caller is not among the operators. */
  readonly role: string;
  /** The name of the caller among the operators. */
  readonly caller: string;
}

/** A file system of a node. */
export interface DiskUsage {
  readonly path: string;
  readonly sizeBytes: number;
  readonly availableBytes: number;
}

/** The figures of one node, from its metrics. */
export interface NodeUsage {
  /** 0 to 1, between the last two readings; undefined after the first one, and from agents of an older version. */
  readonly cpuShare?: number;
  readonly memoryBytes?: number;
  readonly memoryAvailableBytes?: number;
  readonly disks: readonly DiskUsage[];
  /** Of a control plane. */
  readonly stateEtcd?: EtcdTimes;
  readonly kubernetesEtcd?: EtcdTimes;
}

/** Latencies of an etcd member, in ms; undefined if it had none since the reading before. `fsyncMs` is that of its slowest fsyncs that count. */
export interface EtcdTimes {
  readonly fsyncMs?: number | undefined;
  readonly peerRoundTripMs?: number | undefined;
}

/** The metrics of a node, or why they could not be read. */
export type UsageAnswer =
  { readonly ok: true; readonly value: NodeUsage } | { readonly ok: false; readonly error: string };

/** Everything that the sources have told. */
export interface Observations {
  readonly clusterId: string;
  readonly cluster: Reading<ClusterReading>;
  readonly nodes: Reading<readonly ObservedNode[]>;
  /** The Kubernetes etcd, as control planes report it with their status. */
  readonly kubernetesEtcd: CuratorPart['kubernetesEtcd'];
  readonly joins: Reading<readonly JoinView[]>;
  readonly decisions: Reading<readonly AuditRecord[]>;
  /** By the name of the node. */
  readonly usage: Reading<ReadonlyMap<string, UsageAnswer>>;
  /** undefined for a caller without a kubeconfig, who may have none. */
  readonly kubernetes: Reading<KubernetesPart> | undefined;
  readonly history: History;
}

/** One point of a plot. */
export interface Point {
  readonly atMs: number;
  readonly value: number;
}

/** What the dashboard has seen since it started, oldest first and of limited length. */
export interface History {
  /** Latencies of etcd by their curve, such as "n1 state etcd fsync". */
  readonly latencies: ReadonlyMap<string, readonly Point[]>;
  /** The health of each node, by name, from each change on: "healthy", "silent" or "unknown". */
  readonly heartbeats: ReadonlyMap<string, readonly HeartbeatChange[]>;
}

/** From `atMs` on a node had this health. */
export interface HeartbeatChange {
  readonly atMs: number;
  readonly health: string;
}
