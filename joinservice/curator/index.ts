/**
 * The curator: the cluster's state API, one on every control-plane node, all of them equal.
 *
 * ```
 * caller ─mTLS─▶ guard ── admit: key on record? role? ──▶ handlers
 *                                                          ├─ read     linearizable
 *                                                          ├─ write    plan ▶ one transaction + audit + idempotency
 *                                                          └─ node     status, heartbeat (lease), watch ◀─ NodeFeed ◀─ etcd
 * ```
 */
export { nameOfCaller, type Caller } from './admission.ts';
export { Curator, type CuratorOptions } from './curator.ts';
export { CuratorError, curatorErrors, type CuratorErrorCode } from './errors.ts';
export type { NodeFeed } from './feed.ts';
export { Mutations, type Mutation, type MutationPlan } from './mutations.ts';
export { needsOwner, submittedBy, verifyPlace, withDocuments } from './signed-changes.ts';
export { NodeStore } from './node-store.ts';
export { readCluster, type CuratorFacts } from './read-handlers.ts';
export { healthOf, refuse, rolesFromWire, rolesToWire, type NodeView } from './wire.ts';
