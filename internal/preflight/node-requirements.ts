import { PORTS } from '../endpoint/index.ts';

// The requirements of a node, as data. The checks use them, and the packages of the agent are built from them: their dependencies
// and their files in modules-load.d and sysctl.d.

/** A program that the agent, the kubelet or the container runtime runs, and the packages that contain it. */
export interface RequiredProgram {
  readonly program: string;
  /** Package name on Debian and its relatives. */
  readonly deb: string;
  /** Package name on Fedora, Red Hat and their relatives. */
  readonly rpm: string;
  readonly usedBy: string;
}

/** kubeadm requires losetup, mount and cp (cmd/kubeadm/app/preflight/checks_linux.go, v1.35), up to 1.31 also conntrack. */
export const REQUIRED_PROGRAMS: readonly RequiredProgram[] = [
  { program: 'ip', deb: 'iproute2', rpm: 'iproute', usedBy: 'network chart' },
  { program: 'iptables', deb: 'iptables', rpm: 'iptables', usedBy: 'CNI plugins, kubelet' },
  { program: 'nft', deb: 'nftables', rpm: 'nftables', usedBy: 'block of the cloud metadata service' },
  { program: 'mount', deb: 'mount', rpm: 'util-linux', usedBy: 'kubelet' },
  { program: 'losetup', deb: 'mount', rpm: 'util-linux', usedBy: 'kubelet' },
  { program: 'nsenter', deb: 'util-linux', rpm: 'util-linux', usedBy: 'kubelet' },
  { program: 'conntrack', deb: 'conntrack', rpm: 'conntrack-tools', usedBy: 'kube-proxy up to 1.31' },
  { program: 'ethtool', deb: 'ethtool', rpm: 'ethtool', usedBy: 'network chart' },
  { program: 'modprobe', deb: 'kmod', rpm: 'kmod', usedBy: 'systemd, kube-proxy' },
];

/** The programs of a machine with a state disk (bootstrapper/disk). The package of the agent only recommends them. */
export const STATE_DISK_PROGRAMS: readonly RequiredProgram[] = [
  { program: 'cryptsetup', deb: 'cryptsetup-bin', rpm: 'cryptsetup', usedBy: 'state disk' },
  { program: 'mkfs.ext4', deb: 'e2fsprogs', rpm: 'e2fsprogs', usedBy: 'state disk' },
];

/** A kernel module, loaded or built in. */
export interface RequiredModule {
  readonly module: string;
  readonly usedBy: string;
}

/** The modules of every node. */
export const REQUIRED_MODULES: readonly RequiredModule[] = [
  { module: 'overlay', usedBy: 'containerd' },
  { module: 'br_netfilter', usedBy: 'kube-proxy' },
];

/** Kernel parameters (sysctl) and their values. `net.bridge` exists only with br_netfilter. */
export const REQUIRED_SYSCTLS: Readonly<Record<string, string>> = {
  'net.ipv4.ip_forward': '1',
  'net.bridge.bridge-nf-call-iptables': '1',
  'net.bridge.bridge-nf-call-ip6tables': '1',
};

/** The file of a kernel parameter (proc_sys(5)). */
export function sysctlPath(key: string): string {
  return `/proc/sys/${key.replaceAll('.', '/')}`;
}

/**
 * TCP ports that must be free before a machine becomes a node, and the programs that will listen on them. The ports of the agent
 * are not among them, because it listens on them while it checks its machine.
 */
export const REQUIRED_PORTS: Readonly<Record<number, string>> = {
  [PORTS.kubernetesEtcd.client]: 'Kubernetes etcd, clients',
  [PORTS.kubernetesEtcd.peer]: 'Kubernetes etcd, peers',
  [PORTS.kubernetesEtcd.metrics]: 'Kubernetes etcd, metrics',
  [PORTS.stateEtcd.client]: 'state etcd, clients',
  [PORTS.stateEtcd.peer]: 'state etcd, peers',
  [PORTS.stateEtcd.metrics]: 'state etcd, metrics',
  [PORTS.apiServer]: 'API server',
  [PORTS.apiBalancer]: 'node-local balancer',
  [PORTS.join]: 'join service',
  [PORTS.curator]: 'curator',
  [PORTS.authorization]: 'authorization webhook',
  [PORTS.curatorRelay]: 'relay to curators',
  [PORTS.joinRelay]: 'relay to join services',
  [PORTS.joinserviceMetrics]: 'join service, metrics',
  [PORTS.exporter]: 'exporter',
  [PORTS.flannelHealth]: 'flannel, health',
  [PORTS.kubeletHealth]: 'kubelet health',
  [PORTS.kubelet]: 'kubelet',
  [PORTS.kubeProxyHealth]: 'kube-proxy',
  [PORTS.controllerManager]: 'controller manager',
  [PORTS.scheduler]: 'scheduler',
};

/** The cgroup controllers that the kubelet requires (system-validators, validators/cgroup_validator_linux.go). */
export const REQUIRED_CONTROLLERS = ['cpu', 'cpuset', 'memory', 'pids'] as const;

/** Directories that a node writes to: the agent, both etcds, the kubelet, containerd, and the journal and the logs of pods. */
export const WRITABLE_DIRECTORIES = [
  '/var/lib/cluster',
  '/var/lib/cluster/etcd-state/data',
  '/var/lib/cluster/etcd-kubernetes/data',
  '/var/lib/kubelet',
  '/var/lib/containerd',
  '/var/log',
  '/etc/systemd/system',
  '/etc/kubernetes',
  '/opt/cluster',
  '/opt/cni/bin',
] as const;

/** The oldest kernel that upstream tests (system-validators). */
export const OLDEST_KERNEL = '5.4';
/** The first kernel with all cgroup v2 features of the kubelet. */
export const RECOMMENDED_KERNEL = '5.8';

/** The minimum of kubeadm for a control plane (ControlPlaneMem, ControlPlaneNumCPU); a worker may have less. */
export const RECOMMENDED_MEMORY_BYTES = 1700 * 1024 ** 2;
/** See `RECOMMENDED_MEMORY_BYTES`. */
export const RECOMMENDED_PROCESSORS = 2;

/** A certificate that one machine issues must be valid on all others at once. */
export const MAX_CLOCK_OFFSET_MS = 5 * 60 * 1000;
/** 2026-01-01: a clock that is before the release of this program is wrong. */
export const EARLIEST_TIME_MS = 1_767_225_600_000;

/** The packaged file with the modules to load at boot. */
export const MODULES_FILE = '/usr/lib/modules-load.d/cluster.conf';
/** The packaged file with the kernel parameters. */
export const SYSCTL_FILE = '/usr/lib/sysctl.d/60-cluster.conf';

/** The content of `MODULES_FILE` (modules-load.d(5)). */
export function modulesFile(): string {
  const lines = REQUIRED_MODULES.flatMap(({ module, usedBy }) => [`# ${usedBy}`, module]);
  return `# Kernel modules of a node (package cluster-agent).\n${lines.join('\n')}\n`;
}

/** The content of `SYSCTL_FILE` (sysctl.d(5)). With a leading dash, errors are ignored: net.bridge needs its module. */
export function sysctlFile(): string {
  const lines = Object.entries(REQUIRED_SYSCTLS).map(([key, value]) => `-${key} = ${value}`);
  return `# Kernel parameters of a node (package cluster-agent). A file of the same name in /etc/sysctl.d replaces this one.\n${lines.join('\n')}\n`;
}
