/** Where curators are: what a node needs to find its cluster again. Untrusted by itself; peers prove themselves. */
export interface DirectoryEntry {
  readonly nodeId: string;
  readonly host: string;
}

/** What makes a machine a member. The private key lies apart and never leaves the machine. */
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
  /** Curators; never empty. */
  readonly directory: readonly DirectoryEntry[];
}
