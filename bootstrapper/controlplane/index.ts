/** Drivers that run a control plane on this machine: etcd, the first records of a cluster, the curator, the signer, and key rotation. */
export { MachineControlPlaneDriver, type EtcdMembers } from './control-plane-driver.ts';
export { createKeyRotationDriver, readSharedKeys } from './key-rotation-driver.ts';
export { snapshotBytes } from './restore-etcd.ts';
export { signerDriver } from './signer-driver.ts';
