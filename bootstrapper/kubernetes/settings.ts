import {
  LOCAL_API_ENDPOINT,
  type CertificatesConfig,
  type ExtraArguments,
  type HardeningConfig,
  type PodSecurityConfig,
} from '../../internal/config/index.ts';

import type { Taint } from '../../internal/role/index.ts';

export type { EtcdClientFiles } from '../consensus/index.ts';

/**
 * Settings of Kubernetes on this node. The values come from the cluster's configuration, the node's roles and
 * the machine.
 */
export interface KubernetesSettings {
  /** "vMAJOR.MINOR.PATCH" */
  readonly version: string;
  readonly clusterName: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeAddress: string;
  /** The address of the other IP family in a cluster with IPv4 and IPv6; undefined in a cluster with one family. */
  readonly secondaryAddress?: string | undefined;
  /** One network, or one of each IP family, separated by a comma; the first one is the primary network. */
  readonly podSubnet: string;
  /** Like `podSubnet`, with the same families in the same order. */
  readonly serviceSubnet: string;
  /** Further DNS names and addresses in the certificate of the API server. */
  readonly apiServerSans: readonly string[];
  /** Whether ordinary workloads may run on this node if it is a control plane. */
  readonly runsWorkloads: boolean;
  /** Taints with which the kubelet registers this node. */
  readonly taints: readonly Taint[];
  /** "host:port" of a load balancer that the operator runs; undefined: the balancer of this node. */
  readonly apiEndpoint: string | undefined;
  readonly certificates: CertificatesConfig;
  /** undefined: the cluster was created by a release without this setting. */
  readonly podSecurity: PodSecurityConfig | undefined;
  /** undefined: like `podSecurity`. */
  readonly hardening: HardeningConfig | undefined;
  /** Further arguments that the operator chose; undefined: none. */
  readonly extraArguments: ExtraArguments | undefined;
  readonly host: HostSettings;
}

/**
 * Settings in which this machine must differ from the defaults. They come from the machine's provisioning
 * and, for `topology`, from its cloud.
 */
export interface HostSettings {
  /** Setting of containerd: true if the host forbids negative OOM scores (no CAP_SYS_RESOURCE). */
  readonly restrictOomScoreAdj: boolean;
  /** Setting of the kubelet: whether it refuses cgroup v1 (default of the kubelet since 1.35). */
  readonly failCgroupV1: boolean;
  /** Labels topology.kubernetes.io/region and …/zone of the node. Kubernetes lets a kubelet set them on its own node. */
  readonly topology?: Readonly<Record<string, string>>;
}

/** Paths on a node. */
export const PATHS = {
  bin: '/opt/cluster/bin',
  cniBin: '/opt/cni/bin',
  cniConfig: '/etc/cni/net.d',
  containerdConfig: '/etc/containerd/cluster.toml',
  /** Directories of registries, by the agent (bootstrapper/registries) and by operators. */
  registries: '/etc/containerd/certs.d',
  containerdSocket: '/run/containerd/containerd.sock',
  kubeadmConfig: '/var/lib/cluster/kubernetes/kubeadm.yaml',
  stepCheckpoints: '/var/lib/cluster/kubernetes/marks.json',
  controlPlaneGeneration: '/var/lib/cluster/kubernetes/tenure',
  /** kubectl would otherwise write its cache to /.kube, because the agent has no home directory. */
  kubectlCache: '/var/lib/cluster/kubernetes/kubectl-cache',
  pki: '/etc/kubernetes/pki',
  kubeletConf: '/etc/kubernetes/kubelet.conf',
  adminConf: '/etc/kubernetes/admin.conf',
  superAdminConf: '/etc/kubernetes/super-admin.conf',
  encryption: '/etc/kubernetes/encryption/config.json',
  authorization: '/etc/kubernetes/authorization/config.json',
  admission: '/etc/kubernetes/admission/config.json',
  authentication: '/etc/kubernetes/authentication/config.json',
  auditPolicy: '/etc/kubernetes/audit/policy.json',
  /** Log of the API server's audit policy. Rotated files are in the same directory. */
  auditLog: '/var/log/kubernetes/audit.log',
  manifests: '/etc/kubernetes/manifests',
} as const;

/** "host:port" at which programs of this node connect to an API server. */
export function apiEndpointOf({ apiEndpoint }: { readonly apiEndpoint?: string | undefined }): string {
  return apiEndpoint ?? `${LOCAL_API_ENDPOINT.host}:${LOCAL_API_ENDPOINT.port}`;
}

/** The addresses of this node, the primary one first. */
export function nodeAddressesOf({
  nodeAddress,
  secondaryAddress,
}: Pick<KubernetesSettings, 'nodeAddress' | 'secondaryAddress'>): readonly string[] {
  return secondaryAddress === undefined ? [nodeAddress] : [nodeAddress, secondaryAddress];
}
