import { defineErrors, errorClass } from '../../errors/index.ts';

export const evidenceSocketErrors = defineErrors({
  'evidence-socket-unavailable': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The agent of this machine does not answer at its evidence socket.',
    fix: 'See that bootstrapper.service runs and that this service belongs to the group of the socket’s directory.',
  },
  'evidence-socket-malformed': {
    fault: 'peer',
    exit: 'internal',
    retryable: false,
    meaning: 'A message at the evidence socket is cut off, too long or of another version.',
    fix: 'See that agent and join service are of the same release.',
  },
  'evidence-socket-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'The agent does not make this evidence: the session is not one of a server of that service.',
    fix: 'See that both programs are of the same release; otherwise a program asks for what it must not have.',
  },
  'evidence-socket-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The agent could not make evidence just now: its TPM does not answer, or too many ask at once.',
    fix: 'Read the journal of bootstrapper.service, then try again.',
  },
});

export type EvidenceSocketErrorCode = keyof typeof evidenceSocketErrors;

export class EvidenceSocketError extends errorClass(evidenceSocketErrors) {}
