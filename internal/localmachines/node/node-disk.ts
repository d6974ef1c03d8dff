import { familyOf } from '../../endpoint/index.ts';
import { readMounts } from '../../platform/index.ts';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { output, type HostPorts } from '../host/host-ports.ts';
import { hostAddress, type NodeNetwork } from '../network/cluster-network.ts';
import { DATA_DIRECTORIES, type ClusterPaths, type NodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';
import { kubeletTunables, launchScript, nodeInitScript } from './node-scripts.ts';

/** Writes the files of a new machine on top of the shared root file system. Repeated after an interruption. */
export async function writeNodeDisk(
  host: HostPorts,
  options: {
    readonly network: NodeNetwork;
    readonly paths: NodePaths;
    readonly record: LocalNodeRecord;
    readonly provisioning: Readonly<Record<string, unknown>>;
  },
): Promise<void> {
  const { network, paths, record, provisioning } = options;
  const { files } = host;
  // The mode of the upper directory becomes the mode of the machine's root directory.
  for (const directory of [paths.upper, `${paths.upper}/etc`, paths.work, paths.merged]) {
    await files.makeDirectory(directory, 0o755);
  }
  await files.makeDirectory(`${paths.upper}/etc/cluster`, 0o700);
  const etc = (name: string, text: string, mode = 0o644): Promise<void> =>
    files.writeAtomic(`${paths.upper}/etc/${name}`, text, { mode });
  await etc('hostname', `${record.name}\n`);
  await etc('machine-id', `${randomBytes(16).toString('hex')}\n`, 0o444);
  await etc('hosts', `127.0.0.1 localhost\n::1 localhost\n${record.address} ${record.name}\n`);
  // No name server listens at this address. A loopback address would not work: CoreDNS would forward queries to itself.
  await etc('resolv.conf', `nameserver ${hostAddress(network, familyOf(record.address))}\n`);
  await etc('cluster/provisioning.json', `${JSON.stringify(provisioning, undefined, 2)}\n`, 0o600);
}

/** Creates the data directories of the machine, on the disk of the host or on a tmpfs of limited size. */
export async function ensureDisk(
  host: HostPorts,
  paths: NodePaths,
  record: LocalNodeRecord,
  signal: AbortSignal,
): Promise<void> {
  await host.files.makeDirectory(paths.data, 0o755);
  if (record.diskBytes !== undefined && !(await isMounted(host, paths.data))) {
    // A tmpfs survives power cycles of the node and needs no loop device.
    const options = `size=${record.diskBytes},mode=0755`;
    await output(host, ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', paths.data], signal);
  }
  for (const { name, mode } of DATA_DIRECTORIES)
    await host.files.makeDirectory(`${paths.data}/${name}`, mode);
  await host.files.makeDirectory(`${paths.data}/log/journal`, 0o755);
}

/** Writes the scripts and the files for /proc of this version of the program, before each start. */
export async function writeMachineFiles(
  host: HostPorts,
  cluster: ClusterPaths,
  paths: NodePaths,
  record: LocalNodeRecord,
): Promise<void> {
  await host.files.writeAtomic(cluster.launch, launchScript);
  await host.files.remove(paths.machine);
  await host.files.makeDirectory(paths.machine, 0o755);
  await host.files.writeAtomic(`${paths.machine}/node-init`, nodeInitScript);
  for (const [name, text] of Object.entries({ ...kubeletTunables, ...record.procFiles })) {
    const path = `${paths.machine}/proc/${name}`;
    await host.files.makeDirectory(dirname(path), 0o755);
    await host.files.writeAtomic(path, text, { mode: 0o644 });
  }
}

async function isMounted(host: HostPorts, point: string): Promise<boolean> {
  const mounts = await readMounts(host.files);
  return mounts.some((mount) => mount.point === point);
}
