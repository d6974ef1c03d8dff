import { defineErrors, errorClass, type ErrorSpec } from '../errors/index.ts';

/** What the other end did wrong on the wire. Nothing the operator of this end can correct here. */
function peerFault(meaning: string, fix = LOOK_AT_PEER): ErrorSpec {
  return { fault: 'peer', exit: 'refused', retryable: false, meaning, fix };
}

/** What may pass by itself: load, time, a connection that broke. */
function passing(meaning: string, fix: string): ErrorSpec {
  return { fault: 'peer', exit: 'unreachable', retryable: true, meaning, fix };
}

const LOOK_AT_PEER =
  'See that the address is that of a cluster node and that nothing in between ends TLS (a proxy, a scanner).';

/**
 * Every way in which an attested connection is refused. `atls-tls-…` before the first frame, `atls-alert-…`
 * when the other end said why it refuses us, everything else when we refuse it.
 */
export const atlsErrors = defineErrors({
  'atls-config': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'What this end shows or accepts as evidence is missing, unknown or contradictory.',
    fix: 'Name at least one known attestation variant to show and to accept, or name the one-way mode that is meant.',
  },
  'atls-tls-failed': peerFault('The TLS 1.3 handshake did not succeed.'),
  'atls-tls-version': peerFault('The connection is not TLS 1.3.'),
  'atls-tls-alpn': peerFault('The other end does not speak aTLS/1 (another or no application protocol).'),
  'atls-tls-resumed': peerFault('The other end resumed an earlier TLS session; evidence must be fresh.'),
  'atls-tls-certificate': peerFault(
    'The other end showed no usable TLS certificate: none, not P-256, or not issued by the cluster CA where one is required.',
  ),
  'atls-reflection': peerFault('The other end showed our own TLS key or our own nonce back to us.'),
  'atls-frame-version': peerFault('A frame has a version that aTLS/1 does not know.'),
  'atls-frame-type': peerFault('A frame has a type that aTLS/1 does not know.'),
  'atls-frame-order': peerFault('A frame came that is not the one whose turn it was.'),
  'atls-frame-malformed': peerFault('The content of a frame does not follow the specification.'),
  'atls-frame-too-large': peerFault('A frame is longer than its type allows; its body was not read.'),
  'atls-early-data': peerFault('Bytes came before both sides had accepted each other.'),
  'atls-no-common-format': peerFault(
    'The two ends have no form of evidence in common: one shows only what the other does not accept.',
    'Compare the attestation variants configured at both ends.',
  ),
  'atls-evidence-format': peerFault('The other end showed a form of evidence that this end does not accept.'),
  'atls-evidence-rejected': peerFault(
    'The evidence of the other end was refused. The cause names the check.',
    'Compare the reference values in the cluster configuration with what the machine measures.',
  ),
  'atls-issue-failed': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'This machine could not produce its own evidence. The cause says why.',
    fix: 'See that the TPM or TEE device is present and answers, then try again.',
  },
  'atls-internal': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'A defect in this program ended the attestation.',
    fix: 'Please report it with the cause in the log.',
  },
  'atls-truncated': passing(
    'The other end closed the connection before the attestation was complete.',
    'Look at the log of the other end: it says why it hung up.',
  ),
  'atls-connection': passing(
    'The connection broke during the attestation.',
    'Check the network between the two machines, then try again.',
  ),
  'atls-timeout': passing(
    'The other end did not take its turn in time.',
    'See that the other end is up and not overloaded, then try again.',
  ),
  'atls-busy': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'Too many attestations are pending, in total or from this source; the connection was not served.',
    fix: 'Wait and try again; when it stays so, look for a client that opens connections and does not use them.',
  },
  'atls-alert-protocol': peerFault('The other end says that we broke the protocol.'),
  'atls-alert-too-large': peerFault('The other end says that our frame is too large.'),
  'atls-alert-timeout': passing(
    'The other end says that we were too slow.',
    'Try again when this machine has less to do.',
  ),
  'atls-alert-evidence-rejected': peerFault(
    'The other end refused our evidence. Only its log says which check failed.',
    'Read the log of the other end; compare its reference values with what this machine measures.',
  ),
  'atls-alert-internal': passing(
    'The other end failed while attesting.',
    'Read the log of the other end, then try again.',
  ),
  'atls-alert-busy': passing('The other end has too much to do.', 'Wait and try again.'),
  'atls-alert-no-common-format': peerFault(
    'The other end says that it has no form of evidence in common with us.',
    'Compare the attestation variants configured at both ends.',
  ),
});

export type AtlsErrorCode = keyof typeof atlsErrors;

export class AtlsError extends errorClass(atlsErrors) {}
