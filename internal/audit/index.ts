/**
 * The audit log as a hash chain, verifiable without the cluster that wrote it (docs/audit.md).
 *
 *     entry 1 ◀─ previous ─ entry 2 ◀─ previous ─ … ◀─ entry n      meta/audit in etcd names n and its hash
 *                                 ▲
 *                                 └─ checkpoint: seq and hash, signed by the owner, kept in the workspace
 *
 * Join service and curator append to it in the transaction of each decision; the CLI reads, exports and verifies it.
 */
export { ChainVerifier, EMPTY_CHAIN, extendChain, type AuditFacts, type ChainHead } from './chain.ts';
export { parseCheckpoint, signCheckpoint, type Checkpoint } from './checkpoint.ts';
export { AuditError } from './errors.ts';
