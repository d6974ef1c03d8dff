import { readMounts } from '../platform/index.ts';
import {
  findLeader,
  listScopes,
  readCgroupLayout,
  removeScope,
  removeSliceIfEmpty,
  scopeMembers,
  thawScope,
  type CgroupLayout,
} from './host/cgroups.ts';
import { LocalMachineError } from './errors.ts';
import { output, waitUntil, type HostPorts } from './host/host-ports.ts';
import { lockCluster } from './local-cluster.ts';
import { linkName, parseName } from './network/names.ts';
import { removeNetwork, type NodeNetwork } from './network/cluster-network.ts';
import { clusterPaths } from './node/node-paths.ts';
import { findNumber, releaseNumber } from './network/cluster-numbers.ts';
import { restoreInotifyLimit } from './host/inotify-limit.ts';

const DEATH_MS = 20_000;
const POLL_MS = 50;
const NSPAWN_PROPAGATE = '/run/systemd/nspawn/propagate';

/**
 * Removes a local cluster with all its parts on this machine, in any state. Finds the parts by the number
 * and the directory of the cluster in the kernel, not by records. So it also cleans up after a `kill -9` at
 * any point of `mini up`. Returns false when the cluster did not exist.
 */
export async function destroyCluster(
  host: HostPorts,
  options: { readonly root: string; readonly name: string; readonly signal: AbortSignal },
): Promise<boolean> {
  const { directory: directory } = clusterPaths(`${options.root}/${parseName(options.name, 'cluster')}`);
  await using _lock = await lockCluster(directory);
  const network = await findNumber(host, directory);
  const existed = network !== undefined || (await host.files.stat(directory)) !== undefined;
  if (network !== undefined) await removeFromKernel(host, network, options.signal);
  await unmountBelow(host, directory, options.signal);
  await host.files.remove(directory);
  await restoreInotifyLimit(host, { directory, signal: options.signal });
  // The number is released last: if this attempt fails, the next one needs the number to find the remaining parts.
  if (network !== undefined) await releaseNumber(host, network);
  await removeIfEmpty(host, options.root);
  return existed;
}

async function removeFromKernel(host: HostPorts, network: NodeNetwork, signal: AbortSignal): Promise<void> {
  const layout = await readCgroupLayout(host);
  await endScopes(host, layout, network, signal);
  await removeNetwork(host, network, signal);
  for (const name of await host.files.list(NSPAWN_PROPAGATE)) {
    if (name.startsWith(`${linkName(network.number)}-`))
      await host.files.remove(`${NSPAWN_PROPAGATE}/${name}`);
  }
  await removeSliceIfEmpty(host, layout, signal);
}

/** Ends all processes of a cluster and removes their cgroups. The caller holds the lock of the cluster's directory, so no new process appears. */
async function endScopes(
  host: HostPorts,
  layout: CgroupLayout,
  network: NodeNetwork,
  signal: AbortSignal,
): Promise<void> {
  for (const scope of await listScopes(host, layout, network.number)) {
    const gone = await waitUntil(host, { withinMs: DEATH_MS, everyMs: POLL_MS, signal }, async () => {
      const pids = await scopeMembers(host, layout, scope, signal);
      const leader = await findLeader(host, pids);
      for (const pid of leader === undefined ? pids : [leader]) host.processes.sendSignal(pid, 'SIGKILL');
      if (pids.length > 0 && leader === undefined) await thawScope(host, layout, scope, signal);
      return pids.length === 0;
    });
    if (!gone) {
      throw new LocalMachineError(
        'localmachines-not-removed',
        `processes of ${scope} still run after SIGKILL`,
      );
    }
    await removeScope(host, layout, scope, signal);
  }
}

/** Before a directory is removed with its content, nothing may be mounted below it. */
async function unmountBelow(host: HostPorts, directory: string, signal: AbortSignal): Promise<void> {
  for (const point of await mountsBelow(host, directory)) await output(host, ['umount', point], signal);
  const left = await mountsBelow(host, directory);
  if (left.length > 0) {
    throw new LocalMachineError(
      'localmachines-not-removed',
      `still mounted after umount: ${left.join(', ')}`,
    );
  }
}

/** Deepest first. */
async function mountsBelow(host: HostPorts, directory: string): Promise<readonly string[]> {
  return (await readMounts(host.files))
    .map(({ point }) => point)
    .filter((point) => point.startsWith(`${directory}/`))
    .reverse();
}

async function removeIfEmpty(host: HostPorts, directory: string): Promise<void> {
  if ((await host.files.list(directory)).length === 0) await host.files.remove(directory);
}
