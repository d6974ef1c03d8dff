/**
 * The evidence of this machine: one object per agent, created from the provisioning, for every part of the agent that proves the
 * identity of the machine.
 *
 *     InitServer  ─ shows: evidence.issuers ─┐                        ┌─ tpm       AK (its secret sealed for the agent) ─▶ TPM
 *     JoinClient  ─ shows: evidence.issuers ─┼─▶ MachineEvidence ─────┼─ processor SNP, TDX, alone or with the TPM
 *     verify      ─ evidence.forVerify ──────┤       │                └─ machine-key where there is nothing else
 *     joinservice ─ SocketIssuer ─▶ socket ──┘       └─ the lock register is updated first
 *
 * Use `shows: evidence.issuers` for an end of an attested TLS connection (it has all kinds of evidence of the machine, best first;
 * the verifier chooses). Inside a session, `proveKey(label, peer.session)` proves the machine key, and `readEnrolment` and
 * `answerChallenge` are the machine's side of credential activation (internal/attestation/enrolment). The join service gets its
 * evidence over the socket of `evidenceSocketRunnable`: see internal/atls/evidencesocket.
 *
 * No caller chooses the bytes that are quoted: evidence is bound to the attested TLS sessions of this process and of the join
 * service, to the statements of ticket requests (`forTicket`), and to `verifyBinding` with the names of this node.
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
