/**
 * Writes `internal/image/packages.lock.json`: the Debian packages of which images are made, with the versions and hashes that
 * the package sources of this machine offer. Run it on Debian 12 after `apt-get update`; then build an image and run the story
 * `image`.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closureOf, dependenciesOf, writeLock } from './debian-packages.ts';

const LOCK = resolve(fileURLToPath(import.meta.url), '../../internal/image/packages.lock.json');
/** What the agent, the kubelet and the state partition need. Their dependencies are added. */
const WANTED = [
  ...['base-passwd', 'ca-certificates', 'conntrack', 'coreutils', 'cryptsetup-bin', 'dbus', 'dmsetup'],
  ...['e2fsprogs', 'ethtool', 'iproute2'],
  ...['iptables', 'kmod', 'libc6', 'libgcc-s1', 'libstdc++6', 'mount', 'nftables', 'procps', 'socat'],
  ...[
    'systemd',
    'systemd-boot',
    'systemd-boot-efi',
    'systemd-resolved',
    'systemd-timesyncd',
    'udev',
    'util-linux',
  ],
];
/** The kernels are those that these packages depend on: of virtual machines, and of servers. */
const KERNELS = ['linux-image-cloud-amd64', 'linux-image-amd64'];
/** Dependencies of installation scripts only, and shells: an image runs no scripts. */
const LEFT_OUT = new Set([
  ...['adduser', 'bash', 'dash', 'dbus-bin', 'dbus-session-bus-common', 'debconf', 'debianutils'],
  ...['dpkg', 'findutils', 'gcc-12-base', 'grep', 'init-system-helpers', 'libcap2-bin', 'libpam-modules'],
  ...['libpam-modules-bin', 'libpam-runtime', 'login', 'logsave', 'lsb-base', 'netbase', 'openssl', 'passwd'],
  ...['perl-base', 'sed', 'sensible-utils', 'systemd-sysv', 'sysvinit-utils', 'tar', 'tzdata'],
  ...['util-linux-extra', 'libdebconfclient0', 'initramfs-tools', 'linux-initramfs-tool', 'linux-base'],
]);

const kernels = dependenciesOf(KERNELS).filter((name) => name.startsWith('linux-image-'));
const names = [...closureOf([...WANTED, ...kernels], LEFT_OUT)].sort();
writeLock(LOCK, names);
process.stdout.write(`${names.length} packages, kernels ${kernels.join(', ')}\n`);
