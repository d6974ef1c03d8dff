import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  fetchPackages,
  parsePackageLock,
  pinnedPackages,
  unpackPackages,
  type PackageContext,
} from '../../../internal/image/index.ts';
import { programOfBundle } from '../../../internal/testing/index.ts';
import { createBuildContext } from '../../build-context.ts';
import { packShellRoot, type ShellMachineFiles } from '../../machines/shell-root.ts';
import additional from './packages.lock.json' with { type: 'json' };

/** Packages of images that the guest needs as well; its kernel is also that of images. */
const OF_IMAGES = new Set([
  ...['cryptsetup-bin', 'e2fsprogs', 'libacl1', 'libargon2-1', 'libblkid1', 'libc6', 'libcom-err2'],
  ...['libcryptsetup12', 'libdevmapper1.02.1', 'libext2fs2', 'libffi8', 'libgcc-s1', 'libgmp10'],
  ...['libgssapi-krb5-2', 'libjson-c5', 'libk5crypto3', 'libkeyutils1', 'libkmod2', 'libkrb5-3'],
  ...['libkrb5support0', 'liblzma5', 'libp11-kit0', 'libpcre2-8-0', 'libpopt0', 'libselinux1', 'libssl3'],
  ...['libstdc++6', 'libtirpc3', 'libudev1', 'libuuid1', 'libzstd1', 'zlib1g'],
]);
const KERNEL = /^linux-image-/;
const MODULES = [
  'arch/x86/crypto',
  'crypto',
  'lib',
  'drivers/virtio',
  'drivers/block/virtio_blk.ko',
  'drivers/md',
];
/** udev would load the modules for the processor (AES, SHA). The kernel loads those of dm-crypt and dm-integrity by itself. */
const SET_UP = `for module in virtio_pci virtio_blk aesni_intel sha256_ssse3 dm_mod; do $b modprobe $module; done
$b mkdir -p /etc
echo 127.0.0.1 localhost > /etc/hosts
$b ifconfig lo up
`;

/** Prepares kernel and initrd of the guest: the pinned packages with cryptsetup and fio, and etcd of the bundle. */
export async function createMachineFiles(directory: string, signal: AbortSignal): Promise<ShellMachineFiles> {
  const build = createBuildContext({ signal, say: (text) => process.stderr.write(`${text}\n`) });
  const context: PackageContext = { ...build, paths: { cache: build.cache } };
  const pinned = pinnedPackages();
  const packages = [
    ...pinned.packages.filter(({ name }) => OF_IMAGES.has(name) || KERNEL.test(name)),
    ...parsePackageLock(additional).packages,
  ];
  const files = await fetchPackages(context, { lock: { ...pinned, packages }, directory: undefined });
  const unpacked = join(directory, 'packages');
  await unpackPackages(context, files, unpacked);
  const at = (name: string): string => join(unpacked, name);
  const kernel = packages.find(({ name }) => KERNEL.test(name))?.name ?? '';
  const root = join(directory, 'root');
  await mkdir(join(root, 'opt/bin'), { recursive: true });
  for (const { name } of packages)
    if (name !== kernel)
      await context.ports.commands.run({ argv: ['cp', '--archive', `${at(name)}/.`, root], signal });
  for (const name of ['usr/share', 'usr/lib/systemd'])
    await rm(join(root, name), { recursive: true, force: true });
  await copyFile(await programOfBundle('etcd', directory), join(root, 'opt/bin/etcd'));
  return packShellRoot(root, {
    busybox: join(at('busybox-static'), 'bin/busybox'),
    kernel: at(kernel),
    release: kernel.slice('linux-image-'.length),
    modules: MODULES,
    setUp: SET_UP,
  });
}
