import { defineErrors, errorClass } from '../../errors/index.ts';

/** Errors of the evidence socket. */
export const evidenceSocketErrors = defineErrors({
  'evidence-socket-unavailable': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The agent of this machine does not respond at its evidence socket.',
    fix: 'Check that bootstrapper.service is running, and that this service is in the group of /run/cluster/evidence.',
  },
  'evidence-socket-malformed': {
    fault: 'peer',
    exit: 'internal',
    meaning: 'A message at the evidence socket is truncated, too long or of another version.',
    fix: 'Compare the versions of the agent and the join service on this machine, and upgrade the older one.',
  },
  'evidence-socket-refused': {
    fault: 'operator',
    exit: 'refused',
    meaning:
      'The agent refused to create evidence, because the session does not belong to a server of the join service.',
    fix: 'Compare the versions of the agent and the join service on this machine. If they match, a compromised program may be asking: inspect the join service.',
  },
  'evidence-socket-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The agent could not create evidence: its TPM does not respond, or there are too many requests.',
    fix: 'Read the log of bootstrapper.service, then try again.',
  },
});

/** Codes of `EvidenceSocketError`. */
export type EvidenceSocketErrorCode = keyof typeof evidenceSocketErrors;

/** The evidence socket did not provide evidence. */
export class EvidenceSocketError extends errorClass(evidenceSocketErrors) {}
