import { metricsFrom, samplesFrom, type Sample } from '../../doctor/index.ts';
import type { EtcdMemberFacts } from '../../../internal/doctor/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { DiskUsage, EtcdTimes, NodeUsage } from '../model/observations.ts';

/** Reads figures of nodes from their pages of metrics. Shares and latencies are those between two pages of a node. */
export class UsageReader {
  readonly #pages = new Map<string, string>();

  /** The figures of a node. Pure but for the page that it keeps for the next call. */
  read(node: string, page: string): NodeUsage {
    const earlier = this.#pages.get(node);
    this.#pages.set(node, page);
    const [now, before] = [samplesFrom(page), samplesFrom(earlier ?? '')];
    const cpu = cpuShare(now, before);
    const memoryBytes = valueOf(now, 'cluster_node_memory_bytes');
    const memoryAvailableBytes = valueOf(now, 'cluster_node_memory_available_bytes');
    const { stateEtcd, kubernetesEtcd } = metricsFrom(page, earlier);
    return {
      ...(cpu !== undefined && { cpuShare: cpu }),
      ...(memoryBytes !== undefined && { memoryBytes }),
      ...(memoryAvailableBytes !== undefined && { memoryAvailableBytes }),
      disks: disksOf(now),
      // Without an earlier page the figures would be those since the start of etcd.
      ...(stateEtcd !== undefined && earlier !== undefined && { stateEtcd: timesOf(stateEtcd) }),
      ...(kubernetesEtcd !== undefined &&
        earlier !== undefined && { kubernetesEtcd: timesOf(kubernetesEtcd) }),
    };
  }

  /** Forgets nodes that are gone. */
  keepOnly(nodes: ReadonlySet<string>): void {
    for (const node of this.#pages.keys()) if (!nodes.has(node)) this.#pages.delete(node);
  }
}

/** undefined without two readings of the same boot: the counters begin again at 0 with each boot. */
function cpuShare(now: readonly Sample[], before: readonly Sample[]): number | undefined {
  const growth = (name: string): number => (valueOf(now, name) ?? NaN) - (valueOf(before, name) ?? NaN);
  const [busy, all] = [
    growth('cluster_node_cpu_busy_seconds_total'),
    growth('cluster_node_cpu_seconds_total'),
  ];
  // The kernel's idle time can go back a little, and then more than all time was busy.
  return all > 0 && busy >= 0 ? Math.min(1, busy / all) : undefined;
}

function disksOf(samples: readonly Sample[]): readonly DiskUsage[] {
  const available = new Map(
    samples
      .filter(({ name }) => name === 'cluster_filesystem_available_bytes')
      .map(({ labels, value }) => [labels['path'] ?? '', value]),
  );
  return samples.flatMap(({ name, labels: { path = '' }, value: sizeBytes }) => {
    const availableBytes = available.get(path);
    return name !== 'cluster_filesystem_size_bytes' || availableBytes === undefined || !(sizeBytes > 0)
      ? []
      : [{ path: printable(path), sizeBytes, availableBytes }];
  });
}

function timesOf({ fsync, peerRoundTripMs }: EtcdMemberFacts): EtcdTimes {
  return { fsyncMs: fsync?.ms, peerRoundTripMs };
}

/** A node sends its own metrics, so a value can be anything. */
function valueOf(samples: readonly Sample[], wanted: string): number | undefined {
  const value = samples.find(({ name }) => name === wanted)?.value;
  return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
}
