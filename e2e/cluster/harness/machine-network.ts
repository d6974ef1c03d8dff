import type { StoryCluster } from './story-cluster.ts';

/**
 * Processes that must survive a loss of the quorum and its recovery: pods, and the programs that run them.
 */
const WORKLOADS = 'kubelet containerd kube-proxy flanneld coredns web';
const PEER_PORTS = [2380, 2383];

/** Lines of "NAME PID START"; the start time exposes a reused PID. A systemd unit counts as its main process. */
export function processesOf(
  cluster: StoryCluster,
  machine: string,
  units: readonly string[] = [],
): Promise<string> {
  return cluster.sh(
    machine,
    `{ for name in ${WORKLOADS}; do for pid in $(pidof $name || true); do echo $name $pid $(cut -d' ' -f22 /proc/$pid/stat); done; done
     for unit in ${units.join(' ')}; do echo $unit $(systemctl show --property MainPID --value $unit); done; } | sort`,
  );
}

/**
 * Blocks (`I`) or unblocks (`D`) the traffic between this machine's etcd members and their peers. Clients of
 * etcd are not affected.
 */
export async function setPeerTraffic(cluster: StoryCluster, machine: string, what: 'I' | 'D'): Promise<void> {
  const rules = ['INPUT', 'OUTPUT'].flatMap((chain) =>
    ['sport', 'dport'].flatMap((way) =>
      PEER_PORTS.map((port) => `iptables -${what} ${chain} -p tcp --${way} ${port} -j DROP`),
    ),
  );
  await cluster.sh(machine, rules.join(' && '));
}

/** Blocks all traffic between these machines and these addresses. */
export async function blockTraffic(
  cluster: StoryCluster,
  machines: readonly string[],
  addresses: readonly string[],
): Promise<void> {
  await Promise.all(machines.map((each) => cluster.sh(each, wall('I', addresses))));
}

export async function unblockTraffic(
  cluster: StoryCluster,
  machines: readonly string[],
  addresses: readonly string[],
): Promise<void> {
  await Promise.all(machines.map((each) => cluster.sh(each, wall('D', addresses))));
}

function wall(what: 'I' | 'D', addresses: readonly string[]): string {
  return addresses
    .flatMap((address) => [
      `iptables -${what} INPUT -s ${address} -j DROP`,
      `iptables -${what} OUTPUT -d ${address} -j DROP`,
    ])
    .join(' && ');
}
