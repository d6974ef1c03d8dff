/**
 * The evidence of this machine. The agent creates one object from the provisioning, and every part of the
 * agent that proves the identity of the machine uses this object.
 *
 * ```
 * InitServer  ─ shows: evidence.issuers ─┐                        ┌─ tpm: AK (secret sealed for the agent) ─▶ TPM
 * JoinClient  ─ shows: evidence.issuers ─┼─▶ MachineEvidence ─────┼─ processor: SNP or TDX, with or without TPM
 * verify      ─ evidence.forVerify ──────┤       │                └─ machine-key: if there is no other evidence
 * joinservice ─ SocketIssuer ─▶ socket ──┘       └─ updates the lock register first
 * ```
 *
 * Use `shows: evidence.issuers` for one end of an attested TLS connection. It contains all kinds of evidence
 * of the machine, best first; the verifier chooses one. Inside a session, `proveKey(label, peer.session)`
 * proves the machine key. `readEnrolment` and `answerChallenge` are the machine's side of credential
 * activation (internal/attestation/enrolment). The join service gets its evidence over the socket of
 * `evidenceSocketRunnable` (internal/atls/evidencesocket).
 *
 * No caller chooses the bytes that are quoted. Evidence is bound to the attested TLS sessions of this process
 * and of the join service, to the statements of requests for tickets and disk shares (`forTicket`, `forDiskShare`), to `verifyBinding` with the
 * names of this node, or to how its state disk is sealed (`forDiskSeal`).
 */
export { createMachineEvidence, type MachineEvidence } from './machine-evidence.ts';
export { evidenceSocketRunnable } from './evidence-socket.ts';
export { createTpmLockRegister } from './tpm-lock-register.ts';
export { createTpm } from './create-tpm.ts';
export { createTpmCounter, type MachineCounter } from './tpm-counter.ts';
