import { PORTS } from '../../internal/endpoint/index.ts';
import type { EtcdUser } from '../../internal/etcd/index.ts';
import type { CA_COMMON_NAMES } from '../../internal/keyset/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';

type AuthorityKey = keyof typeof CA_COMMON_NAMES;

/** The two etcd clusters of a control plane. Both have the same machines as members and nothing else in common. */
export const ETCD_NAMES = ['state', 'kubernetes'] as const;
export type EtcdName = (typeof ETCD_NAMES)[number];

export interface ListenPorts {
  readonly client: number;
  readonly peer: number;
  /** Loopback only, without TLS: sizes and counters, no keys. */
  readonly metrics: number;
}

/** What one of them is; how one of its members runs is the `ConsensusConfig`. */
export interface EtcdInstance {
  readonly name: EtcdName;
  /** In messages for people. */
  readonly title: string;
  readonly unit: string;
  /** The system user of the process. */
  readonly systemUser: string;
  /** The names in the client certificates that a member makes; "root" is the agent's own. */
  readonly clients: readonly EtcdClientName[];
  /** etcd's own access control; undefined: whoever has a client certificate may do everything. */
  readonly access: readonly EtcdUser[] | undefined;
  /** The authorities, by the name that a rotation of keys has for them. */
  readonly cas: { readonly clients: AuthorityKey; readonly peers: AuthorityKey };
}

export type EtcdClientName = 'root' | 'curator' | 'signer' | 'apiserver';

/**
 * The records of the cluster itself. The curator may change them, the signer may read them, and Kubernetes has no
 * certificate for it.
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
 * Kubernetes' own, as kubeadm runs it: the API server may call everything. Without `Maintenance.Status` it takes etcd for
 * one that answers no progress requests, and its watches stall (docs/decisions/two-etcd-clusters.md).
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

export const ETCD_INSTANCES = { state: STATE_ETCD, kubernetes: KUBERNETES_ETCD } as const;

/** Where the members of each listen. */
export const ETCD_PORTS: Readonly<Record<EtcdName, ListenPorts>> = {
  kubernetes: PORTS.kubernetesEtcd,
  state: PORTS.stateEtcd,
};

/** 8 GiB is the largest quota etcd recommends; 4 leave room to raise it in an emergency. The records are small. */
export const QUOTA_BYTES: Readonly<Record<EtcdName, number>> = {
  kubernetes: 4 * 1024 ** 3,
  state: 1024 ** 3,
};
