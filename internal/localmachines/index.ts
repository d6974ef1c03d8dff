/**
 * Local machines (a replaceable interface), for `cluster mini` and the end-to-end stories only. Each node has a software TPM, and is one of:
 *
 * - a systemd-nspawn container with its own root file system, network namespace, cgroups and disk directories, in which the real agent
 *   runs under a real systemd;
 * - a virtual machine of QEMU with UEFI firmware, which boots a disk that the caller writes.
 *
 *     checkHost → ensureRootfs → ensureAgentLayer → createCluster → addNode        → start
 *                      (cache, shared)                 (<data>/mini/<name>)
 *     checkHost                                   → createCluster → addVirtualNode → start
 *
 * Everything of a cluster in the kernel has the number of the cluster in its name, and everything on disk is in its directory or in the
 * cache. `destroyCluster` relies on this and on no record. `host` is about the machine that runs the nodes, `rootfs` about their shared
 * file systems, `network` about the switch between them, `node` about a single node,
 * `vm` about virtual machines: two drivers behind one interface (node/machine-driver.ts).
 */
export { createCluster, findCluster, listClusters, LocalCluster } from './local-cluster.ts';
export { destroyCluster } from './destroy-cluster.ts';
export { LocalMachineError } from './errors.ts';
export type { HostPorts } from './host/host-ports.ts';
export { ensureAgentLayer } from './rootfs/agent-layer.ts';
export { hierarchiesFrom, SLICE } from './host/cgroups.ts';
export { isZombie } from './host/proc.ts';
export { NUMBERS_DIRECTORY } from './network/cluster-numbers.ts';
export { linkName, parseName } from './network/names.ts';
export { hostAddress, namespaceFile, portName, RUN_DIRECTORY } from './network/cluster-network.ts';
export { LocalNode } from './node/local-node.ts';
export type { MachineType } from './node/machine-driver.ts';
export type { DiskRecovery } from './node/provisioning.ts';
export { checkHost, describeMissing, requireHost } from './host/check-host.ts';
export { hostRequirements, requiredPackages, vmRequirements } from './host/host-requirements.ts';
export { ensureRootfs } from './rootfs/ensure-rootfs.ts';
