import { defineErrors, errorClass, type ErrorSpec, fault, retryable } from '../errors/index.ts';

/** A protocol violation of the peer, which the operator of this end cannot correct. */
function peerFault(meaning: string, fix = LOOK_AT_PEER): ErrorSpec {
  return fault.peer.refused(meaning, fix);
}

/** A temporary failure: load, a timeout or a broken connection. */
const temporary = retryable.peer.unreachable;

const LOOK_AT_PEER =
  'Check that the address is that of a cluster node and that no proxy or scanner terminates TLS in between.';

/**
 * Every reason for which an attested connection is refused or fails. `atls-tls-…`: before the first frame.
 * `atls-alert-…`: the peer refused this end and reported why. All other codes: this end refused the peer, or failed.
 */
export const atlsErrors = defineErrors({
  'atls-config': fault.operator.usage(
    'The configured evidence that this end shows or accepts is missing, unknown or contradictory.',
    'Configure at least one known attestation variant to show and one to accept, or choose a one-way mode.',
  ),
  'atls-tls-failed': peerFault('The TLS 1.3 handshake failed.'),
  'atls-tls-version': peerFault('The connection is not TLS 1.3.'),
  'atls-tls-alpn': peerFault(
    'The peer does not support aTLS/1: it negotiated another application protocol, or none.',
  ),
  'atls-tls-resumed': peerFault(
    'The peer resumed an earlier TLS session, but evidence must be made for a new session.',
  ),
  'atls-tls-certificate': peerFault(
    'The TLS certificate of the peer is missing, is not P-256, or was not issued by the cluster CA where that is required.',
  ),
  'atls-reflection': peerFault(
    'The peer sent back the TLS key or the nonce of this end (a reflection attack).',
  ),
  'atls-frame-version': peerFault('A frame has a version that aTLS/1 does not know.'),
  'atls-frame-type': peerFault('A frame has a type that aTLS/1 does not know.'),
  'atls-frame-order': peerFault('The peer sent another frame than the protocol expects at this step.'),
  'atls-frame-malformed': peerFault('The content of a frame does not follow the specification.'),
  'atls-frame-too-large': peerFault('A frame is longer than its type allows. Its body was not read.'),
  'atls-early-data': peerFault('The peer sent bytes before both ends had accepted each other.'),
  'atls-no-common-format': peerFault(
    'The peer accepts none of the attestation variants that this end can show.',
    'Compare the attestation variants that are configured at both ends.',
  ),
  'atls-evidence-format': peerFault(
    'The peer sent evidence of an attestation variant that this end does not accept.',
  ),
  'atls-evidence-rejected': peerFault(
    'The evidence of the peer was refused. The cause of this error names the check that failed.',
    'Follow the fix of the cause. If the cause names a register, compare the reference values in the cluster configuration with `cluster attest measure` on the machine.',
  ),
  'atls-issue-failed': retryable.system.precondition(
    'This machine could not produce its own evidence. The cause of this error says why.',
    'Check that the TPM (/dev/tpmrm0) or the TEE device is present and responds, then try again.',
  ),
  'atls-internal': fault.system.internal(
    'A bug in this program ended the attestation.',
    'Run the command again with `--verbose`, and report the bug with its output.',
  ),
  'atls-truncated': temporary(
    'The peer closed the connection before the attestation was complete.',
    'Run the same command again. If that fails too, `journalctl -u bootstrapper -u cluster-joinservice` on the peer names the reason.',
  ),
  'atls-connection': temporary(
    'The connection broke during the attestation.',
    'Check the network between the two machines, then try again.',
  ),
  'atls-timeout': temporary(
    'The peer did not respond in time.',
    'Check that the peer is running and not overloaded, then try again.',
  ),
  'atls-busy': retryable.peer.unreachable(
    'Too many attestations are pending, in total or from this source, so the connection was closed.',
    'Wait and try again. If the error persists, look for a client that opens connections and does not use them.',
  ),
  'atls-alert-protocol': peerFault('The peer reports that this end violated the protocol.'),
  'atls-alert-too-large': peerFault('The peer reports that a frame of this end is too large.'),
  'atls-alert-timeout': temporary(
    'The peer reports that this end was too slow.',
    'Reduce the load of this machine, then try again.',
  ),
  'atls-alert-evidence-rejected': peerFault(
    'The peer refused the evidence of this machine. Only the log of the peer names the check that failed.',
    'Find the failed check with `journalctl -u bootstrapper -u cluster-joinservice` on the peer, and compare its reference values with `cluster attest measure` on this machine.',
  ),
  'atls-alert-internal': temporary(
    'The peer failed while it attested the connection.',
    'Run the same command again. If that fails too, `journalctl -u bootstrapper -u cluster-joinservice` on the peer names the reason.',
  ),
  'atls-alert-busy': temporary(
    'The peer has too many pending attestations.',
    'Run the same command again in a minute. If this remains, look for clients that open connections to the peer all the time: `cluster audit ls --last 20` shows refused machines.',
  ),
  'atls-alert-no-common-format': peerFault(
    'The peer reports that this end accepts none of the attestation variants that the peer can show.',
    'Compare the attestation variants that are configured at both ends.',
  ),
});

/** Codes of `AtlsError`. */
export type AtlsErrorCode = keyof typeof atlsErrors;

/** An attested connection was refused or failed. */
export class AtlsError extends errorClass(atlsErrors) {}
