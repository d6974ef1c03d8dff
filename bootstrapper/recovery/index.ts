/**
 * Recovery of a lost etcd quorum. Root requests it while the agent runs, and the next start of the agent
 * carries it out.
 */
export { RecoveryService, runPendingRecovery, temporaryEtcdConfig } from './recovery.ts';
