/**
 * The curator: the API for the state of the cluster. Every control-plane node runs one, and all are equal.
 *
 * ```
 * caller ─mTLS─▶ guard ── admit: key on record? role? ──▶ handlers
 *                                                          ├─ read     linearizable
 *                                                          ├─ write    plan ▶ one transaction + audit + idempotency
 *                                                          └─ node     status, heartbeat (lease), watch ◀─ NodeFeed ◀─ etcd
 * ```
 */
export { ACCESS_RULES } from './access/access-rules.ts';
export { nameOfCaller, type Caller } from './access/authorize-caller.ts';
export { Curator } from './curator.ts';
export type { NodeFeed } from './nodes/node-feed.ts';
export { mutationFrom, Mutations } from './changes/mutations.ts';
export { storedConfiguration } from './changes/stored-configuration.ts';
export { ownerSignatureMissing, submitterOf, withDocuments } from './changes/signed-changes.ts';
export { NodeStore } from './nodes/node-store.ts';
export { readCluster, type CuratorFacts } from './nodes/read-handlers.ts';
export {
  healthOf,
  nodeStatusOf,
  checkLabels,
  refuseField,
  taintsFromWire,
  rolesFromWire,
  rolesToWire,
  type NodeView,
} from './nodes/node-wire.ts';
