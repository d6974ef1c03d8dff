/**
 * Writes `internal/image/packages.lock.json`: the Debian packages of which images are made, with the versions and hashes that
 * the package sources of this machine offer. Run it on Debian 12 after `apt-get update`; then build an image and run the story
 * `image`.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parsePackageLock } from '../internal/image/package-lock.ts';

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
/** The kernel is the one that this package depends on. */
const KERNEL = 'linux-image-cloud-amd64';
/** Dependencies of installation scripts only, and shells: an image runs no scripts. */
const LEFT_OUT = new Set([
  ...['adduser', 'bash', 'dash', 'dbus-bin', 'dbus-session-bus-common', 'debconf', 'debianutils'],
  ...['dpkg', 'findutils', 'gcc-12-base', 'grep', 'init-system-helpers', 'libcap2-bin', 'libpam-modules'],
  ...['libpam-modules-bin', 'libpam-runtime', 'login', 'logsave', 'lsb-base', 'netbase', 'openssl', 'passwd'],
  ...['perl-base', 'sed', 'sensible-utils', 'systemd-sysv', 'sysvinit-utils', 'tar', 'tzdata'],
  ...['util-linux-extra', 'libdebconfclient0', 'initramfs-tools', 'linux-initramfs-tool', 'linux-base'],
]);

function apt(...args: readonly string[]): string {
  return execFileSync('apt-cache', args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
}

/** The first alternative of each dependency of the packages. */
function dependenciesOf(packages: readonly string[]): readonly string[] {
  const options = ['--no-recommends', '--no-suggests', '--no-conflicts', '--no-breaks', '--no-replaces'];
  let isAlternative = false;
  return apt('depends', ...options, ...packages)
    .split('\n')
    .flatMap((line) => {
      const match = /^ ([ |])(?:PreDepends|Depends): (\S+)$/.exec(line);
      if (match === null) return [];
      const isFirst = !isAlternative;
      isAlternative = match[1] === '|';
      return isFirst && match[2] !== undefined && !match[2].startsWith('<') ? [match[2]] : [];
    });
}

function closureOf(wanted: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  for (let open = wanted; open.length > 0;) {
    for (const name of open) found.add(name);
    const next = new Set(dependenciesOf(open));
    open = [...next].filter((name) => !found.has(name) && !LEFT_OUT.has(name));
  }
  return found;
}

/** The newest versions that the package sources offer. */
function pin(packages: readonly string[]): readonly object[] {
  const records = apt('show', '--no-all-versions', ...packages).split(/\n\n+/);
  return records
    .filter((record) => record.startsWith('Package: '))
    .map((record) => {
      const field = (key: string): string => new RegExp(`^${key}: (.+)$`, 'm').exec(record)?.[1] ?? '';
      return {
        name: field('Package'),
        version: field('Version'),
        sha256: field('SHA256'),
        sizeBytes: Number(field('Size')),
      };
    });
}

const kernel = dependenciesOf([KERNEL]).filter((name) => name.startsWith('linux-image-'));
const names = [...closureOf([...WANTED, ...kernel])].sort();
const lock = { suite: 'bookworm', architecture: 'amd64', packages: pin(names) };
const { packages } = parsePackageLock(lock);
if (packages.length !== names.length)
  throw new Error(`the package sources offer ${packages.length} of ${names.length} packages`);
writeFileSync(LOCK, `${JSON.stringify(lock, undefined, 2)}\n`);
process.stdout.write(`${names.length} packages, kernel ${kernel.join(', ')}\n`);
