import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  fetchPackages,
  pinnedPackages,
  unpackPackages,
  type PackageContext,
} from '../../../internal/image/index.ts';
import { programOfBundle } from '../../../internal/testing/index.ts';
import { createBuildContext } from '../../build-context.ts';
import { packShellRoot, type ShellMachineFiles } from '../../machines/shell-root.ts';
import { fetchAdditional, packagesOfImages } from './machine-packages.ts';

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
  const { kernel, programs } = packagesOfImages();
  const lock = { ...pinnedPackages(), packages: [kernel, ...programs] };
  const additional = await fetchAdditional(context);
  const files = new Map([...(await fetchPackages(context, { lock, directory: undefined })), ...additional]);
  const unpacked = join(directory, 'packages');
  await unpackPackages(context, files, unpacked);
  const at = (name: string): string => join(unpacked, name);
  const root = join(directory, 'root');
  await mkdir(join(root, 'opt/bin'), { recursive: true });
  for (const name of files.keys())
    if (name !== kernel.name)
      await context.ports.commands.run({ argv: ['cp', '--archive', `${at(name)}/.`, root], signal });
  for (const name of ['usr/share', 'usr/lib/systemd'])
    await rm(join(root, name), { recursive: true, force: true });
  await copyFile(await programOfBundle('etcd', directory), join(root, 'opt/bin/etcd'));
  return packShellRoot(root, {
    busybox: join(at('busybox-static'), 'bin/busybox'),
    kernel: at(kernel.name),
    release: kernel.name.slice('linux-image-'.length),
    modules: MODULES,
    setUp: SET_UP,
  });
}
