import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { z } from 'zod';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { programOfBundle } from '../../internal/testing/index.ts';
import { kernelPackage, unpackPackages } from '../attestation/measured-boot/packages.ts';
import { packShellRoot, type ShellMachineFiles } from '../machines/shell-root.ts';

const commands = new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' });
/** The modules that the network of a machine can need; the kernel loads them by itself. */
const MODULES = ['arch', 'crypto', 'lib', 'net', 'drivers/net', 'drivers/virtio'];
const GZIP_MAGIC = Buffer.from('1f8b', 'hex');
const ZSTD_MAGIC = Buffer.from('28b52ffd', 'hex');

/**
 * Prepares the kernel of Debian, and an initrd that is the image of flannel, as pods get it, with etcd and a shell. The machine reads its
 * link address from the command line of the kernel (`own=`, `peer=`: the last number of both).
 */
export async function createMachineFiles(directory: string): Promise<ShellMachineFiles> {
  const [distribution, root] = [join(directory, 'distribution'), join(directory, 'root')];
  const kernelName = await kernelPackage('linux-image-cloud-amd64');
  await unpackPackages([kernelName, 'busybox-static'], distribution);
  const release = kernelName.slice('linux-image-'.length);
  await mkdir(root, { recursive: true });
  await unpackImage('flannel-image', root);
  for (const name of ['etcd', 'etcdctl'])
    await copyFile(await programOfBundle(name, directory), join(root, 'opt/bin', name));
  const busybox = join(distribution, 'bin/busybox');
  return packShellRoot(root, { busybox, kernel: distribution, release, modules: MODULES, setUp: SET_UP });
}

const SET_UP = `$b mkdir -p /etc/cni/net.d /etc/flannel
echo 127.0.0.1 localhost > /etc/hosts
for module in virtio_pci virtio_net br_netfilter; do $b modprobe $module; done
for word in $($b cat /proc/cmdline); do
  case $word in own=*) own=\${word#*=};; peer=*) peer=\${word#*=};; esac
done
/bin/ip link set lo up
/bin/ip address add 192.0.2.$own/24 dev eth0
/bin/ip address add fd00:192::$own/64 dev eth0 nodad
/bin/ip link set eth0 up
/bin/ip -4 route add default via 192.0.2.$peer
/bin/ip -6 route add default via fd00:192::$peer
for key in net/ipv4/ip_forward net/ipv6/conf/all/forwarding; do echo 1 > /proc/sys/$key; done
`;

const digests = z.object({ digest: z.string() });
const index = z.object({ manifests: z.tuple([digests]) });
const manifest = z.object({ layers: z.array(digests) });

/** Unpacks an image of the bundle: an archive in the OCI layout with layers that tar can read. */
async function unpackImage(name: string, root: string): Promise<void> {
  const cache = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
  const archive = await blobOf(name, cache);
  const layout = `${root}.${name}`;
  await mkdir(layout);
  await run('tar', '-xf', archive, '-C', layout);
  const blob = (digest: string): string => join(layout, 'blobs', digest.replace(':', '/'));
  const read = async <T>(path: string, shape: z.ZodType<T>): Promise<T> =>
    shape.parse(JSON.parse(await readFile(path, 'utf8')));
  const [{ digest }] = (await read(join(layout, 'index.json'), index)).manifests;
  for (const layer of (await read(blob(digest), manifest)).layers) {
    const tar = `${layout}/layer.tar`;
    await writeFile(tar, decompressed(await readFile(blob(layer.digest))));
    await run('tar', '-xf', tar, '-C', root);
  }
}

function decompressed(bytes: Buffer): Buffer {
  if (bytes.subarray(0, 2).equals(GZIP_MAGIC)) return gunzipSync(bytes);
  return bytes.subarray(0, 4).equals(ZSTD_MAGIC) ? zstdDecompressSync(bytes) : bytes;
}

const bundle = z.object({ components: z.array(z.object({ name: z.string(), sha256: z.string() })) });

async function blobOf(name: string, cache: string): Promise<string> {
  const { stdout } = await run('ls', join(cache, 'bundles'));
  const file = join(cache, 'bundles', stdout.trim().split('\n').at(-1) ?? '');
  const { components } = bundle.parse(JSON.parse(await readFile(file, 'utf8')));
  const found = components.find((each) => each.name === name);
  if (found === undefined) throw new Error(`${file} has no ${name}`);
  return join(cache, 'blobs/sha256', found.sha256);
}

async function run(...argv: [string, ...string[]]): Promise<{ readonly stdout: string }> {
  return commands.run({ argv, signal: new AbortController().signal });
}
