import {
  LOCAL_API_ENDPOINT,
  type CertificatesConfig,
  type PodSecurityConfig,
} from '../../internal/config/index.ts';

/** What this node's Kubernetes is to be: plain values from the cluster's configuration, the roles and the machine. */
export interface KubernetesSettings {
  /** "vMAJOR.MINOR.PATCH" */
  readonly version: string;
  readonly clusterName: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeAddress: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  /** DNS names and addresses for the API server's certificate, beside the node's own. */
  readonly apiServerSans: readonly string[];
  /** Whether ordinary workloads may run beside the control plane. */
  readonly runsWorkloads: boolean;
  /** "host:port" of the operator's own balancer of the API servers; undefined: the node-local one. */
  readonly apiEndpoint: string | undefined;
  readonly certificates: CertificatesConfig;
  /** undefined: the cluster was made before there was this. */
  readonly podSecurity: PodSecurityConfig | undefined;
  readonly host: HostSettings;
}

/** What the machine needs otherwise than the default; from its provisioning. */
export interface HostSettings {
  /** containerd: the host forbids negative oom scores (no CAP_SYS_RESOURCE). */
  readonly restrictOomScoreAdj: boolean;
  /** kubelet: refuse cgroup v1, which is its own default from 1.35 on. */
  readonly failCgroupV1: boolean;
}

/** Where things lie on a node. One list, so that nobody guesses. */
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

/** Where this node finds an API server. */
export function apiEndpointOf({ apiEndpoint }: Pick<KubernetesSettings, 'apiEndpoint'>): string {
  return apiEndpoint ?? `${LOCAL_API_ENDPOINT.host}:${LOCAL_API_ENDPOINT.port}`;
}

/** What the API server uses of its etcd: the local member, as a client that may do everything there. */
export interface EtcdClientFiles {
  readonly endpoint: string;
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}
