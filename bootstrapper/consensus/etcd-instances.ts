import { PORTS } from '../../internal/endpoint/index.ts';
import type { EtcdUser } from '../../internal/etcd/index.ts';
import type { CA_COMMON_NAMES } from '../../internal/keyset/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';

type AuthorityKey = keyof typeof CA_COMMON_NAMES;

/** The two etcd clusters of a control plane. They have the same nodes as members and share nothing else. */
export const ETCD_NAMES = ['state', 'kubernetes'] as const;
/** Name of an etcd cluster in paths and units. */
export type EtcdName = (typeof ETCD_NAMES)[number];

/** TCP ports of an etcd member. */
export interface ListenPorts {
  readonly client: number;
  readonly peer: number;
  /** Loopback only, without TLS: metrics hold sizes and counters, no keys. */
  readonly metrics: number;
}

/** What is the same for all members of an etcd cluster; `ConsensusConfig` has the rest. */
export interface EtcdInstance {
  readonly name: EtcdName;
  /** Name in messages, e.g. "the state etcd". */
  readonly title: string;
  readonly unit: string;
  /** The system user of the process. */
  readonly systemUser: string;
  /** Common names of the client certificates that each member creates; "root" is the agent. */
  readonly clients: readonly EtcdClientName[];
  /** etcd's users and roles; undefined: every client certificate may do everything. */
  readonly access: readonly EtcdUser[] | undefined;
  /** The CAs, by their names in a key rotation. */
  readonly cas: { readonly clients: AuthorityKey; readonly peers: AuthorityKey };
}

/** Common name of a client certificate. */
export type EtcdClientName = 'root' | 'curator' | 'signer' | 'apiserver';

/** Holds the records of the cluster itself. The curator may write, the signer may read; Kubernetes has no certificate for it. */
export const STATE_ETCD: EtcdInstance = {
  name: 'state',
  title: 'the state etcd',
  unit: 'cluster-etcd-state.service',
  systemUser: 'cluster-etcd-state',
  clients: ['root', 'curator', 'signer'],
  access: [
    { name: 'root', permissions: [] },
    { name: 'curator', permissions: [{ kind: 'prefix', prefix: CLUSTER_PREFIX }] },
    { name: 'signer', permissions: [{ kind: 'prefix', prefix: CLUSTER_PREFIX, access: 'read' }] },
  ],
  cas: { clients: 'state-clients-ca', peers: 'state-peers-ca' },
};

/**
 * The etcd of Kubernetes, without access control as with kubeadm: the API server may call everything. If it could not call
 * `Maintenance.Status`, it would send no progress requests and its watches would stall
 * (docs/decisions/two-etcd-clusters.md).
 */
export const KUBERNETES_ETCD: EtcdInstance = {
  name: 'kubernetes',
  title: 'the Kubernetes etcd',
  unit: 'cluster-etcd-kubernetes.service',
  systemUser: 'cluster-etcd-kubernetes',
  clients: ['root', 'apiserver'],
  access: undefined,
  cas: { clients: 'etcd-clients-ca', peers: 'etcd-peers-ca' },
};

/** Both etcd clusters by name. */
export const ETCD_INSTANCES = { state: STATE_ETCD, kubernetes: KUBERNETES_ETCD } as const;

/** Where the members of each listen. */
export const ETCD_PORTS: Readonly<Record<EtcdName, ListenPorts>> = {
  kubernetes: PORTS.kubernetesEtcd,
  state: PORTS.stateEtcd,
};

/** etcd recommends at most 8 GiB; 4 GiB leave room to raise the quota in an emergency. The records are small. */
export const QUOTA_BYTES: Readonly<Record<EtcdName, number>> = {
  kubernetes: 4 * 1024 ** 3,
  state: 1024 ** 3,
};
