import type { Harness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';

/** Machines of the first pages of the tutorial. */
export const MACHINES = ['n1', 'n2', 'n3', 'n4'];

export interface PlainMachines {
  readonly cluster: StoryCluster;
  readonly machines: readonly string[];
  /**
   * The settings that only local machines need in their provisioning: the platform, the software TPM, and what their
   * host does not support.
   */
  readonly own: Readonly<Record<string, object>>;
}

/**
 * Four plain Debian machines. The packages on which the agent's package depends are installed, because the machines
 * reach no package server. The agent's package, its provisioning and the components of Kubernetes are not.
 */
export async function plainMachines(bench: Harness, name: string): Promise<PlainMachines> {
  const cluster = new StoryCluster(bench, name);
  await cluster.machines({ controlPlanes: 3, workers: 1, emptyStores: true });
  const own: Record<string, object> = {};
  for (const machine of MACHINES) {
    own[machine] = await machineSettings(cluster, machine);
    await cluster.sh(machine, 'dpkg --purge cluster-agent && rm -rf /etc/cluster /var/lib/cluster/*');
  }
  return { cluster, machines: MACHINES, own };
}

async function machineSettings(cluster: StoryCluster, machine: string): Promise<object> {
  const all = JSON.parse(await cluster.run(machine, 'cat', '/etc/cluster/provisioning.json')) as Record<
    string,
    unknown
  >;
  const names = ['platform', 'tpm', 'containerRuntime', 'kubelet'];
  return Object.fromEntries(names.filter((name) => name in all).map((name) => [name, all[name]]));
}
