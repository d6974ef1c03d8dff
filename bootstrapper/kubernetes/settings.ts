import {
  LOCAL_API_ENDPOINT,
  type CertificatesConfig,
  type PodSecurityConfig,
} from '../../internal/config/index.ts';

/** How this node runs Kubernetes: values from the configuration of the cluster, the roles of the node and the machine. */
export interface KubernetesSettings {
  /** "vMAJOR.MINOR.PATCH" */
  readonly version: string;
  readonly clusterName: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  /** Further DNS names and addresses in the certificate of the API server. */
  readonly apiServerSans: readonly string[];
  /** Whether workloads may run beside the control plane. */
  readonly runsWorkloads: boolean;
  /** "host:port" of a load balancer that the operator runs; undefined: the balancer of this node. */
  readonly apiEndpoint: string | undefined;
  readonly certificates: CertificatesConfig;
  /** undefined: the cluster was created by a release without this setting. */
  readonly podSecurity: PodSecurityConfig | undefined;
  readonly host: HostSettings;
}

/** Deviations from the defaults that the machine needs; from its provisioning. */
export interface HostSettings {
  /** containerd: the host forbids negative OOM scores (no CAP_SYS_RESOURCE). */
  readonly restrictOomScoreAdj: boolean;
  /** kubelet: refuse cgroup v1 (default of the kubelet from 1.35 on). */
  readonly failCgroupV1: boolean;
}

/** Paths on a node. */
export const PATHS = {
  bin: '/opt/cluster/bin',
  cniBin: '/opt/cni/bin',
  cniConfig: '/etc/cni/net.d',
  containerdConfig: '/etc/containerd/cluster.toml',
  containerdSocket: '/run/containerd/containerd.sock',
  kubeadmConfig: '/var/lib/cluster/kubernetes/kubeadm.yaml',
  stepCheckpoints: '/var/lib/cluster/kubernetes/marks.json',
  controlPlaneGeneration: '/var/lib/cluster/kubernetes/tenure',
  pki: '/etc/kubernetes/pki',
  kubeletConf: '/etc/kubernetes/kubelet.conf',
  adminConf: '/etc/kubernetes/admin.conf',
  superAdminConf: '/etc/kubernetes/super-admin.conf',
  encryption: '/etc/kubernetes/encryption/config.json',
  authorization: '/etc/kubernetes/authorization/config.json',
  admission: '/etc/kubernetes/admission/config.json',
  manifests: '/etc/kubernetes/manifests',
} as const;

/** "host:port" at which programs of this node call an API server. */
export function apiEndpointOf({ apiEndpoint }: Pick<KubernetesSettings, 'apiEndpoint'>): string {
  return apiEndpoint ?? `${LOCAL_API_ENDPOINT.host}:${LOCAL_API_ENDPOINT.port}`;
}

/** Endpoint URL and client certificate of the API server for the local member of the Kubernetes etcd. */
export interface EtcdClientFiles {
  readonly endpoint: string;
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}
