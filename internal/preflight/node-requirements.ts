import { PORTS } from '../endpoint/index.ts';

/**
 * What a machine must have to become a node, as data. The checks judge by it, and the packages of the agent are built from
 * it: their dependencies, their file in modules-load.d and their file in sysctl.d.
 */

/** A program that the agent, the kubelet or the container runtime runs, and the packages that bring it. */
export interface RequiredProgram {
  readonly program: string;
  /** Of Debian and its relatives. */
  readonly deb: string;
  /** Of Fedora, Red Hat and their relatives. */
  readonly rpm: string;
  readonly usedBy: string;
}

// kubeadm asks for losetup, mount and cp (cmd/kubeadm/app/preflight/checks_linux.go, v1.35), until 1.31 for conntrack too.
export const REQUIRED_PROGRAMS: readonly RequiredProgram[] = [
  { program: 'ip', deb: 'iproute2', rpm: 'iproute', usedBy: 'network chart' },
  { program: 'iptables', deb: 'iptables', rpm: 'iptables', usedBy: 'CNI plugins, kubelet' },
  { program: 'nft', deb: 'nftables', rpm: 'nftables', usedBy: 'the guard of the cloud metadata' },
  { program: 'mount', deb: 'mount', rpm: 'util-linux', usedBy: 'kubelet' },
  { program: 'losetup', deb: 'mount', rpm: 'util-linux', usedBy: 'kubelet' },
  { program: 'nsenter', deb: 'util-linux', rpm: 'util-linux', usedBy: 'kubelet' },
  { program: 'conntrack', deb: 'conntrack', rpm: 'conntrack-tools', usedBy: 'kube-proxy to 1.31' },
  { program: 'ethtool', deb: 'ethtool', rpm: 'ethtool', usedBy: 'network chart' },
  { program: 'modprobe', deb: 'kmod', rpm: 'kmod', usedBy: 'systemd, kube-proxy' },
];

/** A kernel module, and the file that is there once the kernel has it, built in or loaded. */
export interface RequiredModule {
  readonly module: string;
  readonly usedBy: string;
}

export const REQUIRED_MODULES: readonly RequiredModule[] = [
  { module: 'overlay', usedBy: 'containerd' },
  { module: 'br_netfilter', usedBy: 'kube-proxy' },
];

/** Kernel parameters (sysctl) and their values. Those below `net.bridge` exist only with br_netfilter. */
export const REQUIRED_SYSCTLS: Readonly<Record<string, string>> = {
  'net.ipv4.ip_forward': '1',
  'net.bridge.bridge-nf-call-iptables': '1',
  'net.bridge.bridge-nf-call-ip6tables': '1',
};

/** TCP ports that must be free before a machine becomes a node, and who will listen there. */
export const REQUIRED_PORTS: Readonly<Record<number, string>> = {
  [PORTS.kubernetesEtcd.client]: 'Kubernetes etcd, clients',
  [PORTS.kubernetesEtcd.peer]: 'Kubernetes etcd, peers',
  [PORTS.stateEtcd.client]: 'state etcd, clients',
  [PORTS.stateEtcd.peer]: 'state etcd, peers',
  [PORTS.apiServer]: 'API server',
  [PORTS.apiBalancer]: 'node-local balancer',
  [PORTS.join]: 'joinservice',
  [PORTS.curator]: 'curator',
  [PORTS.authorization]: 'webhook of the API server',
  [PORTS.curatorRelay]: 'relay to curators',
  [PORTS.joinRelay]: 'relay to join services',
  [PORTS.kubeletHealth]: 'kubelet health',
  [PORTS.kubelet]: 'kubelet',
  [PORTS.kubeProxyHealth]: 'kube-proxy',
  [PORTS.controllerManager]: 'controller manager',
  [PORTS.scheduler]: 'scheduler',
};

/** Controllers without which a kubelet does not start (system-validators, validators/cgroup_validator_linux.go). */
export const REQUIRED_CONTROLLERS = ['cpu', 'cpuset', 'memory', 'pids'] as const;

/** Directories that the agent writes below. */
export const WRITABLE_DIRECTORIES = [
  '/etc/systemd/system',
  '/etc/kubernetes',
  '/opt/cluster',
  '/opt/cni/bin',
  '/var/lib/cluster',
] as const;

/** The oldest kernel that upstream tests (system-validators), and the oldest with all of cgroup v2 that a kubelet uses. */
export const OLDEST_KERNEL = '5.4';
export const RECOMMENDED_KERNEL = '5.8';

/** What kubeadm asks of a control plane (ControlPlaneMem, ControlPlaneNumCPU); a worker may have less. */
export const RECOMMENDED_MEMORY_BYTES = 1700 * 1024 ** 2;
export const RECOMMENDED_PROCESSORS = 2;

/** Certificates that one machine makes must be valid on the others. */
export const MAX_CLOCK_OFFSET_MS = 5 * 60 * 1000;
/** No machine's clock is right that is before the year in which this program was written: 2026-01-01. */
export const EARLIEST_TIME_MS = 1_767_225_600_000;

export const MODULES_FILE = '/usr/lib/modules-load.d/cluster.conf';
export const SYSCTL_FILE = '/usr/lib/sysctl.d/60-cluster.conf';

/** `MODULES_FILE` (modules-load.d(5)). */
export function modulesFile(): string {
  const lines = REQUIRED_MODULES.flatMap(({ module, usedBy }) => [`# ${usedBy}`, module]);
  return `# Kernel modules of a node (package cluster-agent).\n${lines.join('\n')}\n`;
}

/** `SYSCTL_FILE` (sysctl.d(5)). A leading dash: the parameter may be missing, as below net.bridge without its module. */
export function sysctlFile(): string {
  const lines = Object.entries(REQUIRED_SYSCTLS).map(([key, value]) => `-${key} = ${value}`);
  return `# Kernel parameters of a node (package cluster-agent). A file of the same name in /etc/sysctl.d replaces this one.\n${lines.join('\n')}\n`;
}
