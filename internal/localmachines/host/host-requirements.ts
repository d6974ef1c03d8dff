import { FIRMWARE, QEMU } from '../vm/qemu-command.ts';

/** A program that local clusters run on the host, and its Debian package. */
export interface ProgramRequirement {
  readonly program: string;
  readonly package: string;
}

/** A kernel feature. The probe runs in its own namespaces and leaves nothing behind. */
export interface KernelRequirement {
  readonly feature: string;
  readonly probe: readonly [string, ...string[]];
  /** The command that loads the kernel module of the feature. */
  readonly fix: string;
}

const OVERLAY_PROBE =
  'mount -t tmpfs tmpfs /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && ' +
  'mount -t overlay overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/m';
const NAT_PROBE = 'add table ip p; add chain ip p c { type nat hook prerouting priority -100; }';

const inNetwork = (...argv: readonly string[]): readonly [string, ...string[]] => [
  'unshare',
  '--net',
  '--',
  ...argv,
];

const KERNEL_OF_NETWORKS = [
  { feature: 'network namespaces', probe: inNetwork('true'), fix: 'boot a kernel with CONFIG_NET_NS' },
  {
    feature: 'veth links',
    probe: inNetwork('ip', 'link', 'add', 'probe0', 'type', 'veth', 'peer', 'name', 'probe1'),
    fix: 'modprobe veth',
  },
  {
    feature: 'bridges',
    probe: inNetwork('ip', 'link', 'add', 'probe0', 'type', 'bridge'),
    fix: 'modprobe bridge',
  },
] as const satisfies readonly KernelRequirement[];

/** The requirements of local clusters of containers: `checkHost` checks them, set-up scripts install them. */
export const hostRequirements = {
  programs: [
    { program: 'certtool', package: 'gnutls-bin' },
    { program: 'dpkg', package: 'dpkg' },
    { program: 'find', package: 'findutils' },
    { program: 'ip', package: 'iproute2' },
    { program: 'mmdebstrap', package: 'mmdebstrap' },
    { program: 'mount', package: 'mount' },
    { program: 'nft', package: 'nftables' },
    { program: 'nsenter', package: 'util-linux' },
    { program: 'script', package: 'bsdutils' },
    { program: 'setpriv', package: 'util-linux' },
    { program: 'swtpm', package: 'swtpm' },
    { program: 'swtpm_setup', package: 'swtpm-tools' },
    { program: 'systemd-nspawn', package: 'systemd-container' },
    { program: 'unshare', package: 'util-linux' },
  ],
  /** Required files that are not programs. */
  files: [{ path: '/usr/share/keyrings/debian-archive-keyring.gpg', package: 'debian-archive-keyring' }],
  kernel: [
    ...KERNEL_OF_NETWORKS,
    {
      feature: 'vxlan links',
      probe: inNetwork('ip', 'link', 'add', 'probe0', 'type', 'vxlan', 'id', '1', 'dstport', '8472'),
      fix: 'modprobe vxlan',
    },
    {
      feature: 'address translation (nf_tables)',
      probe: inNetwork('nft', NAT_PROBE),
      fix: 'modprobe -a nf_tables nft_chain_nat',
    },
    {
      feature: 'firewall of bridges',
      probe: ['test', '-e', '/proc/sys/net/bridge/bridge-nf-call-iptables'],
      fix: 'modprobe br_netfilter',
    },
    {
      feature: 'overlay file systems',
      probe: ['unshare', '--mount', '--', 'sh', '-c', OVERLAY_PROBE],
      fix: 'modprobe overlay',
    },
  ],
  /** The cgroup controllers that the kubelet requires. */
  controllers: ['cpu', 'cpuset', 'memory', 'pids'],
  /** Free disk space for the root file system, its layers and one node, without the bundle. */
  freeBytes: 6 * 1024 ** 3,
} as const satisfies HostRequirements;

/** The requirements of local clusters of virtual machines, which have kernel, cgroups and firewall of their own. */
export const vmRequirements = {
  programs: [
    { program: 'apt-get', package: 'apt' },
    { program: 'certtool', package: 'gnutls-bin' },
    { program: 'dnsmasq', package: 'dnsmasq-base' },
    { program: 'dpkg-deb', package: 'dpkg' },
    { program: 'find', package: 'findutils' },
    { program: 'ip', package: 'iproute2' },
    { program: 'mount', package: 'mount' },
    { program: 'nsenter', package: 'util-linux' },
    { program: QEMU, package: 'qemu-system-x86' },
    { program: 'swtpm', package: 'swtpm' },
    { program: 'swtpm_setup', package: 'swtpm-tools' },
    { program: 'unshare', package: 'util-linux' },
  ],
  files: [
    { path: FIRMWARE.code, package: 'ovmf' },
    { path: FIRMWARE.variables, package: 'ovmf' },
  ],
  kernel: [
    {
      feature: 'amd64 processor, the only one that images are for',
      probe: ['sh', '-c', 'test "$(uname -m)" = x86_64'],
      fix: 'leave --machines out: containers run on this machine',
    },
    ...KERNEL_OF_NETWORKS,
    {
      feature: 'tap links',
      probe: inNetwork('ip', 'tuntap', 'add', 'probe0', 'mode', 'tap'),
      fix: 'modprobe tun',
    },
  ],
  controllers: [],
  /** Free disk space for the image and the packages in it, and the state of one node, without the bundle. */
  freeBytes: 8 * 1024 ** 3,
} as const satisfies HostRequirements;

/** The Debian packages to install, sorted. */
export function requiredPackages(requirements: HostRequirements): readonly string[] {
  const all = [...requirements.programs, ...requirements.files].map((each) => each.package);
  return [...new Set(all)].sort();
}

/** See `hostRequirements`. */
export interface HostRequirements {
  readonly programs: readonly ProgramRequirement[];
  readonly files: readonly { readonly path: string; readonly package: string }[];
  readonly kernel: readonly KernelRequirement[];
  readonly controllers: readonly string[];
  readonly freeBytes: number;
}
