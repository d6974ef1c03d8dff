/**
 * Use cases of `cluster recover`, for a cluster that has lost most control planes for good. They run as root on a surviving
 * control plane, over the agent's socket: without a quorum no curator can serve.
 */
export { RecoverError, recoverErrors, type RecoverErrorCode } from './errors.ts';
export { runRecoverQuorum, type RecoverQuorumOptions } from './recover-quorum.ts';
