import { defineErrors, fault, retryable } from '../../errors/index.ts';

const refusal = fault.peer.refused;
const ALTERED =
  'Compare the version of the agent with that of the cluster, upgrade the older one, and start the enrolment again.';

/** Refusals of the enrolment of a machine, one for each check. */
export const enrolErrors = defineErrors({
  'enrol-trust-missing': fault.operator.usage(
    'The cluster configuration trusts neither a TPM manufacturer nor an endorsement key.',
    'Add root certificates of TPM manufacturers, or fingerprints of endorsement keys, to the cluster configuration.',
  ),
  'enrol-certificate-missing': refusal(
    'The TPM has no certificate for its endorsement key, and the cluster configuration does not pin the key.',
    'Get the certificate from the manufacturer, or add the fingerprint of the key to the cluster configuration.',
  ),
  'enrol-certificate-usage': refusal(
    'The certificate is not for an endorsement key: EKU 2.23.133.8.1 or the key usage is missing, or its names are malformed.',
    'Check that the NV index of the TPM for its endorsement key (EK) certificate holds an EK certificate, not a platform or device certificate.',
  ),
  'enrol-certificate-key': refusal(
    'The manufacturer’s certificate is for another key, not for the endorsement key of the TPM.',
    'Do not trust this machine, and find out where its TPM and the certificate come from.',
  ),
  'enrol-endorsement-key': refusal(
    'The endorsement key is malformed, or is not a restricted decryption key that cannot leave its TPM.',
    ALTERED,
  ),
  'enrol-message-malformed': refusal('An enrolment message is malformed.', ALTERED),
  'enrol-challenge-unknown': refusal(
    'The answer belongs to a challenge that does not exist, was answered already, or is expired.',
    'Start the enrolment of this machine again.',
  ),
  'enrol-challenge-busy': retryable.system.unreachable(
    'Too many machines are enrolling at the same time.',
    'Try again in a minute, or enrol fewer machines at the same time.',
  ),
  'enrol-answer-wrong': refusal(
    'The machine did not solve the challenge: its attestation key is not in the TPM that has this endorsement key, or the answer is for another session.',
    'Do not trust this machine. Check which machine responds at its address.',
  ),
});

/** Codes of enrolment refusals. */
export type EnrolErrorCode = keyof typeof enrolErrors;
