/**
 * Domain: the log of decisions as a hash chain, verifiable without the cluster that wrote it (docs/audit.md).
 *
 *     entry 1 ◀─ previous ─ entry 2 ◀─ previous ─ … ◀─ entry n      meta/audit in etcd names n and its hash
 *                                 ▲
 *                                 └─ checkpoint: seq and hash, signed by the owner, kept at the workstation
 *
 * Joinservice and curator write it, in the transaction of what they decide; the CLI reads, exports and verifies.
 */
export {
  ChainVerifier,
  EMPTY_CHAIN,
  extendChain,
  hashOfEntry,
  type AuditFacts,
  type ChainHead,
} from './chain.ts';
export { parseCheckpoint, signCheckpoint, type Checkpoint, type CheckpointSubject } from './checkpoint.ts';
export { AuditError, auditErrors, type AuditErrorCode } from './errors.ts';
