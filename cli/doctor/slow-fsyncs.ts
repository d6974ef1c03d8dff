import { FSYNC_WARNING_MS, type NodeMetricsFacts } from '../../internal/doctor/index.ts';

/** Whether an etcd member of the node had slow fsyncs while it was measured. */
export function hasSlowFsyncs({ stateEtcd, kubernetesEtcd }: NodeMetricsFacts): boolean {
  return [stateEtcd, kubernetesEtcd].some((etcd) => (etcd?.fsync?.ms ?? 0) > FSYNC_WARNING_MS);
}

/** The metrics of a node with the faster fsyncs of two measurements. */
export function withFasterFsyncs(metrics: NodeMetricsFacts, again: NodeMetricsFacts): NodeMetricsFacts {
  const faster = (name: 'stateEtcd' | 'kubernetesEtcd'): Partial<NodeMetricsFacts> => {
    const [found, second] = [metrics[name], again[name]?.fsync];
    const isFaster = found?.fsync !== undefined && second !== undefined && second.ms < found.fsync.ms;
    return isFaster ? { [name]: { ...found, fsync: second } } : {};
  };
  return { ...metrics, ...faster('stateEtcd'), ...faster('kubernetesEtcd') };
}
