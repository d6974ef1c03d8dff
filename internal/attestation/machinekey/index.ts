/**
 * The key-only kind of evidence, for machines without a TPM: an Ed25519 signature of the machine's own key over the
 * session's binding. It proves that the machine is the one whose fingerprint somebody read off its console, and nothing
 * about its software or hardware: root on that machine has the key. It counts only where a configuration names it.
 *
 *   machine: MachineKeyIssuer ── version, public key, signature(binding) ──▶ MachineKeyValidator ── fingerprint pinned?
 *
 * `proveKey` and `verifyKeyProof` are for inside a session whose evidence is of another kind: the same key, proved over the
 * session's value under a label of its own.
 */
export { MachineKeyError, machineKeyErrors, type MachineKeyErrorCode } from './errors.ts';
export { proveKey, verifyKeyProof, type KeyProof } from './key-proof.ts';
export { MachineKeyIssuer, MachineKeyValidator } from './machine-key.ts';
