/**
 * Use cases of `cluster recover`, for a cluster that has lost most control planes for good, or whose database is full. They run as
 * root on a control plane. A recovery of the quorum goes over the agent's socket: without a quorum no curator can serve.
 */
export { RecoverError, recoverErrors } from './errors.ts';
export { runRecoverQuorum, type RecoverQuorumOptions } from './recover-quorum.ts';
export { runRecoverSpace } from './recover-space.ts';
