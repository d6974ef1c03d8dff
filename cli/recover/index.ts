/**
 * Use cases of `cluster recover`: the way back when most control planes are gone for good. Root on a machine that
 * survived, over the agent's socket: without a quorum no curator may answer anybody.
 */
export { RecoverError, recoverErrors, type RecoverErrorCode } from './errors.ts';
export { runRecoverQuorum, type RecoverQuorumOptions } from './recover-quorum.ts';
