/**
 * Port layer: a TPM 2.0 and its command protocol (TCG TPM 2.0 Library, Parts 1 to 3).
 *
 *   deviceSource('/dev/tpmrm0') ─┐
 *   socketSource({ path })      ─┴─▶ Tpm ── use(signal, task) ──▶ TpmConnection ── commands: quote, readPcrs, …
 *                                    one queue                    flushed after the task
 *
 * A task has exclusive access to the TPM from its first to its last command. Responses of the TPM are parsed as strictly as
 * untrusted bytes, because verifiers use `structures/` for bytes from the network. `internal/attestation` decides what is
 * trusted.
 */
export { CURVES, digestOf, hashSizeBytes } from './algorithms.ts';
export {
  approvedStatement,
  generationOfSeal,
  lastValueOfSeal,
  isApprovable,
  isApprovableBy,
  nameOfSeal,
  sealApprovable,
  testApproval,
  unsealApprovable,
  type PcrApproval,
  type PolicyAuthority,
} from './approved-seal.ts';
export { BatchQuoter, quoteExtraData, type BatchedQuote } from './batch-quoter.ts';
export { password, type Authorization } from './command.ts';
export { HIERARCHY } from './commands/hierarchies.ts';
export { activateCredential, createPrimary, readPublic } from './commands/keys.ts';
export { getRandom, listHandles, shutdown, TRANSIENT_HANDLES } from './commands/lifecycle.ts';
export {
  defineCounter,
  defineNv,
  incrementCounter,
  readCounter,
  readNv,
  readNvPublic,
} from './commands/nv.ts';
export { extendPcr, readPcrs } from './commands/pcr.ts';
export { certifyNv, quote, type SignedAttest } from './commands/quote.ts';
export type { TpmConnection } from './connection.ts';
export { deviceSource } from './device-transport.ts';
export { TpmError } from './errors.ts';
export {
  createAttestationKey,
  openEndorsementKey,
  readEndorsementCertificate,
  withEndorsementAuth,
  type EndorsementKeyKind,
} from './keys.ts';
export { LOCK_COUNTER, lockCounter, lockCounterExtraData } from './lock-counter.ts';
export { leafHash, MAX_LEAVES, MAX_PATH, merkleTree, NODE_BYTES, rootFromProof } from './merkle.ts';
export { NvCounter } from './nv-counter.ts';
export { sealProved, unsealProved } from './proved-seal.ts';
export { sealSecret, unsealSecret } from './seal.ts';
export { kdfA } from './sessions/kdf.ts';
export { shareSecret } from './sessions/share-secret.ts';
export { socketSource } from './socket-transport.ts';
export {
  parseNvAttest,
  parseQuoteAttest,
  type ClockInfo,
  type NvAttest,
  type QuoteAttest,
} from './structures/attest.ts';
export { COUNTER_ATTRIBUTES, NV_ATTRIBUTE, nvNameOf, type NvPublic } from './structures/nv-public.ts';
export { encodePcrSelection, PCR_COUNT, pcrDigest, type PcrSelection } from './structures/pcr-selection.ts';
export {
  hasAttributes,
  keyObjectOf,
  nameOf,
  OBJECT_ATTRIBUTE,
  parsePublic,
  qualifiedNameOf,
  type ObjectAttribute,
  type SignatureScheme,
  type TpmPublic,
} from './structures/public.ts';
export {
  canonicalSignature,
  encodeSignature,
  isCanonical,
  isSignedBy,
  parseSignature,
  type TpmSignature,
} from './structures/signature.ts';
export { Tpm, type TpmTask } from './tpm.ts';
export type { Transport, TransportSource } from './transport.ts';
export { WireReader, WireWriter } from './wire.ts';
