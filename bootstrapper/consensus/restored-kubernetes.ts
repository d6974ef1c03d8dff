import { put, remove, type Entry, type KeySpace, type Write } from '../../internal/etcd/index.ts';
import { endpointsWithout, nodeOfPod, slicesWithout } from '../../internal/kube/stored/index.ts';
import { deleteAll, writeInParts } from './write-in-parts.ts';

/** Keys of Kubernetes with the name of one machine at their end. */
const NODE_PREFIXES = ['/registry/minions/', '/registry/csinodes/', '/registry/leases/kube-node-lease/'];
/** Keys of Kubernetes that name machines of the cluster that was backed up. */
const MACHINE_PREFIXES = [...NODE_PREFIXES, '/registry/masterleases/', '/registry/leases/kube-system/'];
/** The endpoints of the old API servers. The first API server of the restored cluster writes them again. */
const API_SERVER_KEYS = [
  '/registry/services/endpoints/default/kubernetes',
  '/registry/endpointslices/default/kubernetes',
];
const PODS_PREFIX = '/registry/pods/';
const SLICES_PREFIX = '/registry/endpointslices/';
const ENDPOINTS_PREFIX = '/registry/services/endpoints/';

/**
 * Deletes the objects that name machines of the cluster that was backed up, without those of workers that keep their pods: nodes and leases, the
 * pods of other nodes, and the endpoints on them. Controllers create the pods again at once; until they do, no kube-proxy sends anything to an address
 * that is gone. A pod with a finalizer stays for the pod garbage collector, because a controller has to see its end first.
 * `etcd` is the whole Kubernetes etcd.
 */
export async function forgetKubernetesNodes(
  etcd: KeySpace,
  keptWorkers: readonly { readonly name: string }[],
  signal: AbortSignal,
): Promise<void> {
  const kept = new Set(keptWorkers.map(({ name }) => name));
  const isGone = (nodeName: string): boolean => nodeName !== '' && !kept.has(nodeName);
  const except = [...kept].flatMap((name) => NODE_PREFIXES.map((prefix) => prefix + name));
  await deleteAll(etcd, MACHINE_PREFIXES, { except, signal });
  await writeInParts(etcd, API_SERVER_KEYS.map(remove), signal);
  await change(etcd, PODS_PREFIX, signal, ({ key, value }) => {
    const pod = nodeOfPod(value);
    return pod !== undefined && isGone(pod.nodeName) && !pod.hasFinalizers ? remove(key) : undefined;
  });
  const rewritten = [
    [SLICES_PREFIX, slicesWithout],
    [ENDPOINTS_PREFIX, endpointsWithout],
  ] as const;
  for (const [prefix, without] of rewritten)
    await change(etcd, prefix, signal, ({ key, value }) => {
      const changed = without(value, isGone);
      return changed && put(key, changed);
    });
}

async function change(
  etcd: KeySpace,
  prefix: string,
  signal: AbortSignal,
  changeOf: (entry: Entry) => Write | undefined,
): Promise<void> {
  const { entries } = await etcd.list(prefix, { signal });
  const writes = entries.map(changeOf).filter((write) => write !== undefined);
  const [puts, deletions] = [
    writes.filter(({ kind }) => kind === 'put'),
    writes.filter(({ kind }) => kind === 'delete'),
  ];
  await writeInParts(etcd, deletions, signal);
  // One at a time: etcd refuses a transaction of more than 1.5 MiB.
  for (const write of puts) await writeInParts(etcd, [write], signal);
}
