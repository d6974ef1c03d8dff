import { PORTS } from '../../internal/endpoint/index.ts';
import type { EtcdUser } from '../../internal/etcd/index.ts';
import type { CA_COMMON_NAMES } from '../../internal/keyset/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';

type AuthorityKey = keyof typeof CA_COMMON_NAMES;

/**
 * The two etcd clusters of a control plane. The same nodes are members of both; the clusters share nothing
 * else.
 */
export const ETCD_NAMES = ['state', 'kubernetes'] as const;
/** Name of an etcd cluster in paths and units. */
export type EtcdName = (typeof ETCD_NAMES)[number];

/** TCP ports of an etcd member. */
export interface ListenPorts {
  readonly client: number;
  readonly peer: number;
  /** Listens on the loopback without TLS: the metrics contain sizes and counters, but no keys. */
  readonly metrics: number;
}

/**
 * Properties that all members of an etcd cluster have in common. `ConsensusConfig` has the properties of one
 * member.
 */
export interface EtcdInstance {
  readonly name: EtcdName;
  /** Name of the etcd cluster in messages, e.g. "the state etcd". */
  readonly title: string;
  readonly unit: string;
  /** The system user that runs the etcd process. */
  readonly systemUser: string;
  /** Common names of the client certificates that each member creates. The agent uses "root". */
  readonly clients: readonly EtcdClientName[];
  /** Users and roles in etcd. undefined: etcd permits everything to every client certificate. */
  readonly access: readonly EtcdUser[] | undefined;
  /** The CAs, by the names that a key rotation uses for them. */
  readonly cas: { readonly clients: AuthorityKey; readonly peers: AuthorityKey };
}

/** Common name of a client certificate. */
export type EtcdClientName = 'root' | 'curator' | 'signer' | 'apiserver';

/**
 * Stores the records of the cluster itself. The curator may write and the signer may read them. Kubernetes
 * has no certificate for this etcd.
 */
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
 * The etcd of Kubernetes. As with kubeadm, it has no access control: the API server may make all calls.
 * Without permission for `Maintenance.Status`, the API server would send no progress requests, and its
 * watches would stall (docs/decisions/two-etcd-clusters.md).
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

/** Ports on which the members of each etcd cluster listen. */
export const ETCD_PORTS: Readonly<Record<EtcdName, ListenPorts>> = {
  kubernetes: PORTS.kubernetesEtcd,
  state: PORTS.stateEtcd,
};

/**
 * Storage quotas. etcd recommends at most 8 GiB; 4 GiB leave room to raise the quota in an emergency. The
 * records are small.
 */
export const QUOTA_BYTES: Readonly<Record<EtcdName, number>> = {
  kubernetes: 4 * 1024 ** 3,
  state: 1024 ** 3,
};
