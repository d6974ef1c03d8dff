/**
 * Takes a backup of the cluster on a control plane, as a stream: both etcd clusters, the shared keys and the configuration,
 * encrypted to recovery keys that an owner named. Nothing is written to the disk of the node.
 */
export { createBackupTask } from './take-backup.ts';
