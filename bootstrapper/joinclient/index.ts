/**
 * The machine's side of a join: finds a cluster, verifies that it belongs to the owner, attests and receives a ticket.
 *
 * ```
 * EndpointSources ─▶ discover ─▶ openFirst ─▶ JoinSession: attested TLS, then cluster ownership (verifyCluster)
 *   provisioned                                   │ Hello, TPM challenge; waiting …; admitted       New
 *   directed (cluster join)                       │     node lock (enrolment)
 *   cloud-init, metadata                          └ IssueJoinTicket ─▶ openTicket ─▶ files on disk   Joining
 * ```
 * Until the cluster has proved its identity, the machine sends nothing except evidence. The machine uses a ticket only if all of
 * it is valid.
 */
export { createJoinUpgrades, createShareUpgrades } from './cluster-evidence.ts';
export {
  discover,
  fileEndpoints,
  knownEndpoints,
  metadataEndpoints,
  type EndpointSource,
} from './discovery.ts';
export { JoinClientError } from './errors.ts';
export { JoinSession, type SessionPorts } from './join-session.ts';
export { openFirst } from './open-first.ts';
export { JoinClient, type GrantedAdmission, type JoinRecord } from './join-client.ts';
export { resolveWithSystem } from './name-lookup.ts';
export { proxiesIn } from './proxies.ts';
export type { JoinProblem, JoinStatus } from './join-status.ts';
export type { OpenedTicket } from './open-ticket.ts';
export type { KnownCa } from './cluster-cas.ts';
export type { ClusterTrust } from './verify-cluster.ts';
export { ensureTicketKeys } from './ticket-keys.ts';
export { unitStatusRunnable } from './unit-status.ts';
