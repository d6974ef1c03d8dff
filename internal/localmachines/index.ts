/**
 * Port: machines of one's own. Each node is a systemd-nspawn container with a root file system, a
 * network namespace, cgroups, disk directories and a software TPM of its own, in which the real agent
 * runs under a real systemd. Used by `cluster mini` and by the end-to-end stories.
 *
 *     preflight → ensureRootfs → ensureAgentLayer → createCluster → addNode → start
 *                      (cache, shared)                 (<data>/mini/<name>)
 *
 * Everything a cluster has in the kernel is named after its number, and everything on disk lies in
 * its directory or in the cache; `destroyCluster` goes by these facts alone.
 */
export { createCluster, findCluster, listClusters, LocalCluster, type NewNode } from './local-cluster.ts';
export { destroyCluster } from './destroy-cluster.ts';
export { LocalMachineError, localMachineErrors, type LocalMachineErrorCode } from './errors.ts';
export type { HostPorts } from './host/host-ports.ts';
export { ensureAgentLayer } from './rootfs/agent-layer.ts';
export { compareHostFacts, readHostFacts, type HostFacts } from './host/host-facts.ts';
export { linkName } from './network/names.ts';
export { hostAddress, namespaceFile, portName, type NodeNetwork } from './network/cluster-network.ts';
export { LocalNode } from './node/local-node.ts';
export type { ClusterPaths, NodePaths } from './node/node-paths.ts';
export type { LocalNodeRecord } from './node/node-record.ts';
export {
  checkHost,
  describeMissing,
  requireHost,
  type MissingRequirement,
  type HostCheckOptions,
  type HostReport,
} from './host/check-host.ts';
export { hostRequirements, requiredPackages, type HostRequirements } from './host/host-requirements.ts';
export { ensureRootfs } from './rootfs/ensure-rootfs.ts';
