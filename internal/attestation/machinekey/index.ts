/**
 * The evidence of a machine without a TPM: an Ed25519 signature of the machine's own key over the binding of the session.
 * It proves that the machine is the one whose fingerprint a person read from its console, and nothing about its software
 * or hardware: root on that machine can read the key. It is accepted only where a configuration names it.
 *
 *   machine: MachineKeyIssuer ── version, public key, signature(binding) ──▶ MachineKeyValidator ── fingerprint pinned?
 *
 * `proveKey` and `verifyKeyProof` prove the same key inside a session whose evidence is of another kind. The signature then
 * covers the session's value under a label of its own.
 */
export { proveKey, verifyKeyProof, type KeyProof } from './key-proof.ts';
export { MachineKeyIssuer, MachineKeyValidator } from './machine-key.ts';
