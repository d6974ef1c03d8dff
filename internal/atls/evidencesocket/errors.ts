import { defineErrors, errorClass, fault, retryable } from '../../errors/index.ts';

/** Errors of the evidence socket. */
export const evidenceSocketErrors = defineErrors({
  'evidence-socket-unavailable': retryable.system.precondition(
    'The agent of this machine does not respond at its evidence socket.',
    'Check that bootstrapper.service is running, and that this service is in the group of /run/cluster/evidence.',
  ),
  'evidence-socket-malformed': fault.peer.internal(
    'A message at the evidence socket is truncated, too long or of another version.',
    'Compare the versions of the agent and the join service on this machine, and upgrade the older one.',
  ),
  'evidence-socket-refused': fault.operator.refused(
    'The agent refused to create evidence, because the session does not belong to a server of the join service.',
    'Compare the versions of the agent and the join service on this machine. If the versions match, a compromised program may have sent the request: inspect the join service.',
  ),
  'evidence-socket-busy': retryable.system.unreachable(
    'The agent could not create evidence: its TPM does not respond, or there are too many requests.',
    'Run the same command again in a minute. If that fails too, `journalctl -u bootstrapper` on the machine shows whether its TPM responds; a TPM that does not respond needs a restart of the machine.',
  ),
});

/** The evidence socket did not provide evidence. */
export class EvidenceSocketError extends errorClass(evidenceSocketErrors) {}
