/**
 * What this machine shows of itself: one object per agent, made from the provisioning, shared by everybody who proves the
 * machine to somebody.
 *
 *     InitServer  ─ shows: evidence.issuers ─┐                        ┌─ tpm       AK (its secret sealed for the agent) ─▶ TPM
 *     JoinClient  ─ shows: evidence.issuers ─┼─▶ MachineEvidence ─────┼─ processor SNP, TDX, alone or with the TPM
 *     verify      ─ evidence.forVerify ──────┤       │                └─ machine-key where there is nothing else
 *     joinservice ─ SocketIssuer ─▶ socket ──┘       └─ first the node lock's register says what the lock says
 *
 * How to plug in: `shows: evidence.issuers` in the trust of an aTLS end (both kinds that a machine has are in it, best
 * first; the verifier's order decides). Inside a session, `proveKey(label, peer.session)` proves the machine's own key, and
 * `readEnrolment`, `answerChallenge` are the machine's side of credential activation (internal/attestation/enrol). The join
 * service gets its evidence over the socket of `evidenceSocketRunnable`: see internal/atls/evidencesocket.
 *
 * Nobody here quotes bytes that a caller names: the bindings are those of this process's own aTLS sessions, of the
 * statements that it asks for tickets with (`forTicket`), of the join
 * service's server sessions, and of `verifyBinding` with this node's own names in it.
 */
export {
  createMachineEvidence,
  type MachineEvidence,
  type MachineEvidenceOptions,
  type TicketEvidence,
} from './machine-evidence.ts';
export { evidenceSocketRunnable, type EvidenceSocketOptions } from './evidence-socket.ts';
export { TpmLockRegister } from './tpm-lock-register.ts';
export { createTpm } from './create-tpm.ts';
