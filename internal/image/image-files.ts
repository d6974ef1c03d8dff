import type { CpioEntry } from './cpio.ts';
import { ImageError } from './errors.ts';
import { firstProgram } from './first-program.ts';
import type { PackageFiles } from './root-tree.ts';
import { SLOT_UNITS, slotUnits } from './slot-units.ts';

/**
 * The directory in which systemd-stub puts the files of `/loader/credentials` on the boot partition. The directory is
 * in an additional initrd, which systemd-stub creates and measures.
 */
export const CREDENTIALS_DIRECTORY = '.extra/global_credentials';
/** Name of the provisioning file on the boot partition. */
export const PROVISIONING_CREDENTIAL = 'provisioning.cred';

const UNITS = 'etc/systemd/system';
/**
 * Masked units: they ask for input at a console, or a machine without logins, swap and local configuration does not
 * need them.
 */
const MASKED = [
  ...['console-getty.service', 'debug-shell.service', 'getty.target', 'getty-static.service'],
  ...['emergency.service', 'rescue.service', 'systemd-firstboot.service', 'ctrl-alt-del.target'],
  ...['systemd-ask-password-console.path', 'systemd-ask-password-wall.path'],
  // These units extend PCR 11 while the machine starts. With them, the value of PCR 11 would depend on the moment of
  // the TPM quote.
  ...['systemd-pcrphase.service', 'systemd-pcrphase-sysinit.service', 'systemd-pcrphase-initrd.service'],
  // The image has units of its own that confirm it (slot-units.ts), and no seed of random numbers on the boot partition.
  ...['systemd-bless-boot.service', 'systemd-boot-system-token.service', 'systemd-boot-update.service'],
  ...['e2scrub_all.timer', 'fstrim.timer', 'hwclock.service', 'systemd-repart.service'],
  // These units run scripts of /etc/init.d.
  ...['kmod.service', 'procps.service', 'udev.service', 'rc-local.service'],
];
const ENABLED: Readonly<Record<string, readonly string[]>> = {
  'multi-user.target.wants': [
    ...['bootstrapper.service', 'systemd-networkd.service', 'systemd-resolved.service', ...SLOT_UNITS],
  ],
  'sysinit.target.wants': ['systemd-timesyncd.service'],
  'sockets.target.wants': ['systemd-networkd.socket'],
  'network-online.target.wants': ['systemd-networkd-wait-online.service'],
};
/** Below the numbers that systemd-sysusers assigns, which begin at 999. */
const FIRST_ACCOUNT = 801;
const IPTABLES = ['iptables', 'ip6tables'].flatMap((name) => [name, `${name}-save`, `${name}-restore`]);
const NETWORK = `[Match]
Type=ether
Kind=!*

[Network]
DHCP=yes

[DHCPv4]
UseNTP=yes
`;
/** Only time servers that DHCP announces: no machine asks a public server for the time. */
const TIME_SYNC = '[Time]\nNTP=\nFallbackNTP=\n';
const HOSTS = '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n';
const RESOLVER = '[Resolve]\nFallbackDNS=\nLLMNR=no\nMulticastDNS=no\n';
/**
 * systemd-logind shuts the machine down when somebody presses its power button: a person, a hypervisor, or a management controller (ACPI). It
 * does nothing else here. There are no logins, and no other key of the machine has an effect.
 */
const POWER_BUTTON = `[Login]
NAutoVTs=0
ReserveVT=0
HandlePowerKey=poweroff
HandleRebootKey=ignore
HandleSuspendKey=ignore
HandleHibernateKey=ignore
HandleLidSwitch=ignore
`;
const PROVISIONING = `d /etc/cluster 0700 root root -
C /etc/cluster/provisioning.json 0600 root root - /${CREDENTIALS_DIRECTORY}/${PROVISIONING_CREDENTIAL}
`;

/**
 * The accounts of the agent's services (sysusers.d(5)). `/etc/passwd` is created at each boot, and files on the state disk
 * belong to numbers, so that these accounts need the same number each time. Debian assigns none of them.
 */
const ACCOUNTS = ['cluster-etcd-state', 'cluster-etcd-kubernetes', 'cluster-joinservice', 'cluster-signer']
  .map((name, index) => `u ${name} ${FIRST_ACCOUNT + index} - /nonexistent\n`)
  .join('');

/**
 * The files of the image that no package contains: configuration, links, and the files that the installation scripts of
 * packages would create.
 */
export function imageFiles(packages: readonly PackageFiles[], version: string): readonly CpioEntry[] {
  return [
    { kind: 'file', path: 'init', mode: 0o755, content: firstProgram('/usr/lib/systemd/systemd') },
    file('usr/lib/os-release', osRelease(version)),
    symlink('etc/os-release', '../usr/lib/os-release'),
    // An empty file: systemd then chooses an id at each boot, and does not start its interactive set-up of a first
    // boot.
    file('etc/machine-id', ''),
    // A container gets a copy of this file: without it none starts.
    file('etc/hosts', HOSTS),
    symlink('etc/resolv.conf', '../run/systemd/resolve/resolv.conf'),
    file('etc/ssl/certs/ca-certificates.crt', certificates(packages)),
    file('etc/systemd/network/80-ethernet.network', NETWORK),
    file('etc/systemd/timesyncd.conf.d/cluster.conf', TIME_SYNC),
    file('etc/systemd/resolved.conf.d/cluster.conf', RESOLVER),
    file('etc/systemd/logind.conf.d/cluster.conf', POWER_BUTTON),
    file('usr/lib/tmpfiles.d/cluster-image.conf', PROVISIONING),
    file('usr/lib/sysusers.d/cluster-image.conf', ACCOUNTS),
    ...IPTABLES.map((name) => symlink(`usr/sbin/${name}`, 'xtables-nft-multi')),
    symlink(`${UNITS}/default.target`, '/usr/lib/systemd/system/multi-user.target'),
    ...MASKED.map((unit) => symlink(`${UNITS}/${unit}`, '/dev/null')),
    ...Object.entries(ENABLED).flatMap(([target, units]) =>
      units.map((unit) => symlink(`${UNITS}/${target}/${unit}`, `/usr/lib/systemd/system/${unit}`)),
    ),
    ...slotUnits(),
    ...['boot', 'dev', 'proc', 'root', 'run', 'sys', 'tmp', 'var'].map((path): CpioEntry => {
      return { kind: 'directory', path, mode: path === 'root' ? 0o700 : path === 'tmp' ? 0o1777 : 0o755 };
    }),
  ];
}

/** The root certificates in one file, as the package's installation script makes it. */
function certificates(packages: readonly PackageFiles[]): Uint8Array {
  const found = packages
    .flatMap(({ entries }) => entries)
    .filter(({ path }) => /^usr\/share\/ca-certificates\/mozilla\/.+\.crt$/.test(path))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .flatMap((entry) => (entry.kind === 'file' ? [entry.content] : []));
  if (found.length === 0) throw new ImageError('image-tree', 'no root certificates in the packages');
  return Buffer.concat(found);
}

/** The text of os-release(5). */
export function osRelease(version: string): string {
  return `${bootEntryRelease(version)}ID_LIKE=debian\nIMAGE_VERSION=${version}\n`;
}

/**
 * The text of os-release(5) for the boot loader. It has no version, because systemd-boot would start the image with the highest version, and the
 * newer image may have the lower one.
 */
export function bootEntryRelease(version: string): string {
  return `NAME="cluster"\nID=cluster\nPRETTY_NAME="cluster ${version}"\nIMAGE_ID=cluster\n`;
}

function file(path: string, content: string | Uint8Array): CpioEntry {
  return { kind: 'file', path, mode: 0o644, content: Buffer.from(content) };
}

function symlink(path: string, target: string): CpioEntry {
  return { kind: 'symlink', path, target };
}
