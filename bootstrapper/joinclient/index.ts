/**
 * The machine's side of joining: finds its cluster, verifies that it is the owner's, proves itself and takes its ticket.
 *
 * ```
 * EndpointSources ─▶ discover ─▶ openFirst ─▶ JoinSession: attested TLS, then whose cluster it is (verifyCluster)
 *   provisioned                                   │ Hello, TPM challenge; waiting …; admitted       New
 *   directed (cluster join)                       │     lock of the machine (enrolment)
 *   cloud-init, metadata                          └ IssueJoinTicket ─▶ openTicket ─▶ placed on disk  Joining
 * ```
 * Before the cluster has proved itself it learns nothing but the machine's evidence; a ticket is used whole or not at all.
 */
export { createJoinUpgrades, type ClusterEvidenceOptions } from './cluster-evidence.ts';
export {
  FileEndpoints,
  httpMetadata,
  KnownEndpoints,
  MetadataEndpoints,
  type EndpointSource,
  type HttpGet,
} from './discovery.ts';
export { JoinClientError } from './errors.ts';
export { httpGet } from './http-get.ts';
export {
  JoinClient,
  type GrantedAdmission,
  type JoinClientOptions,
  type JoinClientPorts,
  type JoinRecord,
} from './join-client.ts';
export { resolveWithSystem } from './name-lookup.ts';
export { proxiesIn } from './proxies.ts';
export type { JoinProblem, JoinStatus } from './join-status.ts';
export type { OpenedTicket } from './open-ticket.ts';
export { ensureTicketKeys, type TicketKeyRing } from './ticket-keys.ts';
