/**
 * Use cases of `cluster recover`, for a cluster that has lost most control planes for good, for a database that is full, and for a
 * state disk that does not open. Quorum and space are recovered as root on a control plane, over the agent's socket: without a
 * quorum no curator can serve. A disk is recovered from the owner's workstation, over the network or with a code that somebody types at
 * the console.
 */
export { RecoverError, recoverErrors } from './errors.ts';
export { runRecoverAtConsole, type RecoverAtConsoleOptions } from './recover-at-console.ts';
export { runRecoverDisk, type RecoverDiskOptions } from './recover-disk.ts';
export { runRecoverQuorum, type RecoverQuorumOptions } from './recover-quorum.ts';
export { readEtcdState, runRecoverSpace } from './recover-space.ts';
