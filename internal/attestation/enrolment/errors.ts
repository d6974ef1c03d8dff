import { defineErrors } from '../../errors/index.ts';
import { refusedCheck as refusal } from '../errors.ts';

const ALTERED = 'The request was altered, or made by an agent of another version.';

/** Refusals of a machine that wants its attestation key tied to its TPM, by check. */
export const enrolErrors = defineErrors({
  'enrol-trust-missing': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'Neither a manufacturer’s root nor an endorsement key is configured to be trusted.',
    fix: 'Add the root certificates of the TPM manufacturers, or the fingerprints of the endorsement keys, to the cluster configuration.',
  },
  'enrol-certificate-missing': refusal(
    'The TPM has no certificate for its endorsement key, and the key is not pinned.',
    'Get the certificate from the manufacturer, or pin the key by its fingerprint in the cluster configuration.',
  ),
  'enrol-certificate-usage': refusal(
    'The certificate is not one for an endorsement key (EKU 2.23.133.8.1 and the usage of its kind of key).',
    'Look at which certificate lies in the TPM’s NV index; platform and device certificates are others.',
  ),
  'enrol-certificate-key': refusal(
    'The certificate is for another key than the endorsement key shown.',
    'The manufacturer’s certificate and the TPM do not belong together; do not trust this machine.',
  ),
  'enrol-endorsement-key': refusal(
    'The endorsement key is malformed or not a restricted decryption key fixed in one TPM.',
    ALTERED,
  ),
  'enrol-message-malformed': refusal('A message of the enrolment does not have its form.', ALTERED),
  'enrol-challenge-unknown': refusal(
    'The challenge that is answered was never given, has been answered already, or is too old.',
    'Start the enrolment of this machine again.',
  ),
  'enrol-challenge-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Too many machines are enrolling at the same time.',
    fix: 'Wait and try again.',
  },
  'enrol-answer-wrong': refusal(
    'The machine could not open the challenge: the attestation key is not in the TPM of this endorsement key, or the answer is for another session.',
    'Do not trust this machine; see what answers at its address.',
  ),
});

export type EnrolErrorCode = keyof typeof enrolErrors;
