/**
 * Port: machines of one's own. Each node is a systemd-nspawn container with a root file system, a
 * network namespace, cgroups, disk folders and a software TPM of its own, in which the real agent
 * runs under a real systemd. Used by `cluster mini` and by the end-to-end stories.
 *
 *     preflight → ensureRootfs → ensureAgentLayer → createCluster → addNode → start
 *                      (cache, shared)                 (<data>/mini/<name>)
 *
 * Everything a cluster has in the kernel is named after its number, and everything on disk lies in
 * its folder or in the cache; `destroyCluster` goes by these facts alone.
 */
export { createCluster, findCluster, listClusters, LocalCluster, type NewNode } from './cluster.ts';
export { destroyCluster } from './destroy.ts';
export { MachinesError, machinesErrors, type MachinesErrorCode } from './errors.ts';
export type { MachineHost } from './host.ts';
export { ensureAgentLayer } from './layer.ts';
export { compareHostFacts, readHostFacts, type HostFacts } from './host-facts.ts';
export { linkName } from './names.ts';
export { hostAddress, namespaceFile, portName, type NodeNetwork } from './network.ts';
export { LocalNode } from './node.ts';
export type { ClusterPaths, NodePaths } from './node-paths.ts';
export type { NodeRecord } from './node-record.ts';
export {
  preflight,
  requireHost,
  type Lack,
  type PreflightOptions,
  type PreflightReport,
} from './preflight.ts';
export { hostRequirements, requiredPackages, type HostRequirements } from './requirements.ts';
export { ensureRootfs } from './rootfs.ts';
