/**
 * Evidence for TLS sessions of another process on this machine. Only the agent may use the TPM; the join service, which
 * untrusted peers can reach, requests its evidence over a Unix socket.
 *
 *     joinservice (own user)                           agent (root)
 *     atlsServerUpgrade ─ shows: SocketIssuer ──▶ evidence socket ──▶ is it a statement of a *server* in *my context*?
 *            ▲                                                          └─▶ SHA-512 ──▶ Issuer (TPM) ──┐
 *            └──────────────────────────── evidence ◀──────────────────────────────────────────────────┘
 *
 * A request carries the statement, not its 64-byte hash. So an attacker who compromises the join service gets evidence for
 * servers of that service only: never as a client, never for the init port, never for another binding.
 *
 * Use at the requesting end, among the options of `atlsServerUpgrade`:
 *
 *     shows: [new SocketIssuer({ path: config.evidence.socket, variant: config.evidence.variant })]
 *
 * The context must be the one that the socket was created for (`JOIN_CONTEXT` for the join service). The agent writes
 * the machine's preferred attestation variant into the configuration of the service. The directory of the socket
 * decides who may connect: 0750, owned by root and the group of the service.
 */
export { SocketIssuer } from './socket-issuer.ts';
export { createEvidenceSocketServer, EVIDENCE_SOCKET } from './socket-server.ts';
