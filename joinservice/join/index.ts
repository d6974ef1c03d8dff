/**
 * Admission: machines prove themselves and are let in (joinproto/join.proto).
 *
 * ```
 * machine ─attested TLS─▶ RequestAdmission ─▶ key ─▶ TPM challenge ─▶ decideJoin (pure) ─▶ joins/ID, audit, trace
 *                         IssueJoinTicket  ─▶ everything again ─▶ node UP, name, identity, audit ─▶ signer ─▶ ticket
 *                         IssueRejoinTicket ─▶ key and machine on record ─▶ signer ─▶ ticket
 * ```
 * Checks first, minting last: what is refused or lost leaves a request, an entry of the audit and a trace, nothing else.
 */
export { JoinError, joinErrors, type JoinErrorCode } from './errors.ts';
export { JoinService, type JoinServiceOptions } from './join-service.ts';
export { isNodeName, requestedName } from './admission/decide-join.ts';
export { readTrace } from './requests/join-trace.ts';
export type { TicketSigner } from './tickets/tickets.ts';
