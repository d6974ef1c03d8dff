import type { Taint } from '../../internal/role/index.ts';

/** A control plane at which a node finds its cluster again. Not trusted: the server there must prove its identity. */
export interface DirectoryEntry {
  readonly nodeId: string;
  readonly host: string;
}

/**
 * The data that makes a machine a member. The private key is in a separate file and never leaves the machine.
 */
export interface Membership {
  /** 16 bytes in lower-case hex. */
  readonly clusterId: string;
  readonly clusterName: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly nodeCertPem: string;
  readonly clusterCaPem: string;
  /** Increases with each recovery of etcd. */
  readonly epoch: number;
  /** Control planes from the join ticket; never empty. */
  readonly directory: readonly DirectoryEntry[];
  /** Taints from the newest join ticket, with which the kubelet registers its node; absent if there are none. */
  readonly taints?: readonly Taint[];
}

/** The end of a membership: the cluster has removed this node. */
export interface RemovalRecord extends Pick<Membership, 'clusterId' | 'clusterName' | 'nodeId' | 'nodeName'> {
  /** When the agent found the removal. */
  readonly foundMs: number;
}
