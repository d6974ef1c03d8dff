/** A control plane at which a node finds its cluster again. Not trusted: whoever answers there must prove its identity. */
export interface DirectoryEntry {
  readonly nodeId: string;
  readonly host: string;
}

/** What makes a machine a member. The private key is a file of its own and never leaves the machine. */
export interface Membership {
  /** 16 bytes in lower-case hex. */
  readonly clusterId: string;
  readonly clusterName: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly nodeCertPem: string;
  readonly clusterCaPem: string;
  /** Grows when etcd is restored from a snapshot. */
  readonly epoch: number;
  /** Control planes, as the join ticket named them; never empty. */
  readonly directory: readonly DirectoryEntry[];
}
