/**
 * Evidence for a session of another process on this machine. The agent alone may use the TPM; the join service, which
 * strangers can reach, asks it over a Unix socket.
 *
 *     joinservice (own user)                           agent (root)
 *     atlsServerUpgrade ─ shows: SocketIssuer ──▶ evidence socket ──▶ is it a statement of a *server* in *my context*?
 *            ▲                                                          └─▶ SHA-512 ──▶ Issuer (TPM) ──┐
 *            └──────────────────────────── evidence ◀──────────────────────────────────────────────────┘
 *
 * What may be asked for is not 64 bytes but the statement that they are the hash of. So whoever takes the join service
 * over gets evidence for servers of that one service only: never as a client, never for the owner's port, never for a
 * binding made up elsewhere.
 *
 * How to plug it in, at the asking end (one line beside the other options of `atlsServerUpgrade`):
 *
 *     shows: [new SocketIssuer({ path: config.evidence.socket, variant: config.evidence.variant })]
 *
 * The context must be the one that the socket was made for (`JOIN_CONTEXT` for the join service). The variant is what the
 * machine shows first; the agent writes it into the configuration of the service. Who may connect is decided by the
 * directory of the socket: 0750, owned by root and the group of the service.
 */
export { EvidenceSocketError, evidenceSocketErrors, type EvidenceSocketErrorCode } from './errors.ts';
export { SocketIssuer } from './socket-issuer.ts';
export {
  createEvidenceSocketServer,
  type EvidenceSocketOptions,
  type EvidenceSocketServer,
} from './socket-server.ts';
export { EVIDENCE_SOCKET, JOIN_CONTEXT } from './paths.ts';
