import { inScope, scopeMembers, type CgroupLayout } from '../host/cgroups.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { dhcpScope } from '../network/names.ts';
import {
  hostAddress,
  linkAddress,
  namespaceFile,
  switchAddress,
  type AttachedNode,
  type NodeNetwork,
} from '../network/cluster-network.ts';
import type { ClusterPaths } from '../node/node-paths.ts';

/**
 * The DHCP server of the virtual machines of a cluster: dnsmasq in the namespace of the switch. It gives an address only to machines that
 * have a file in its directory `hosts`, which it reads again when a file appears. It serves neither DNS nor other networks.
 */
export function dhcpArgv(network: NodeNetwork, directory: string): readonly string[] {
  // prettier-ignore
  return [
    'nsenter', `--net=${namespaceFile(network, undefined)}`, '--',
    'dnsmasq', '--keep-in-foreground', '--conf-file=/dev/null', '--pid-file=', '--user=root', '--group=root', '--log-facility=-',
    '--port=0', '--interface=sw', '--except-interface=lo', '--bind-interfaces', '--no-ping', '--dhcp-authoritative',
    `--dhcp-range=${hostAddress(network).replace(/\d+$/, '0')},static,255.255.255.0,infinite`,
    `--dhcp-hostsdir=${directory}/hosts`, `--dhcp-leasefile=${directory}/leases`,
    `--dhcp-option=option:router,${switchAddress(network)}`,
    // No name server listens at this address, as in containers (node-disk.ts).
    `--dhcp-option=option:dns-server,${hostAddress(network)}`,
  ];
}

/** Announces a machine to the DHCP server, which need not run yet. */
export async function writeDhcpHost(
  host: HostPorts,
  directory: string,
  { name, address }: AttachedNode,
): Promise<void> {
  await host.files.makeDirectory(`${directory}/hosts`);
  // The server reads each file that appears in `hosts`, also temporary ones.
  const written = `${directory}/${name}`;
  await host.files.writeAtomic(written, `${linkAddress(address)},${address},${name},infinite\n`);
  await host.files.rename(written, `${directory}/hosts/${name}`);
}

/** Starts the DHCP server of a cluster unless it runs. The caller holds the lock of the cluster. */
export async function ensureDhcpServer(
  host: HostPorts,
  layout: CgroupLayout,
  options: { readonly network: NodeNetwork; readonly cluster: ClusterPaths; readonly signal: AbortSignal },
): Promise<void> {
  const { network, cluster, signal } = options;
  const scope = dhcpScope(network.number);
  if ((await scopeMembers(host, layout, scope, signal)).length > 0) return;
  await host.files.makeDirectory(`${cluster.dhcp}/hosts`);
  const where = { launch: cluster.launch, scope, log: `${cluster.dhcp}/dnsmasq.log` };
  await host.processes.startDetached({ argv: inScope(layout, where, dhcpArgv(network, cluster.dhcp)) });
}
