import type { StoryCluster } from './story-cluster.ts';

/** What must live through a loss of the quorum and its recovery: pods, and what runs them. */
const WORKLOADS = 'kubelet containerd kube-proxy flanneld coredns web';
const PEER_PORTS = [2380, 2383];

/** "NAME PID START" a line: a pid that was used again is no disguise. Units by their main process. */
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

/** Members of etcd do not hear this machine any more, nor it them; clients go on. "D" undoes it. */
export async function setPeerTraffic(cluster: StoryCluster, machine: string, what: 'I' | 'D'): Promise<void> {
  const rules = ['INPUT', 'OUTPUT'].flatMap((chain) =>
    ['sport', 'dport'].flatMap((way) =>
      PEER_PORTS.map((port) => `iptables -${what} ${chain} -p tcp --${way} ${port} -j DROP`),
    ),
  );
  await cluster.sh(machine, rules.join(' && '));
}

/** Nothing passes between these machines and those addresses. */
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
