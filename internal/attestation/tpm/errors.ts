import { defineErrors, fault } from '../../errors/index.ts';

const refusal = fault.peer.refused;
const ALTERED =
  'Compare the version of the agent with that of the cluster (`cluster node ls --wide`) and restart its bootstrapper.service. If the refusal persists, do not trust the machine: its evidence was altered.';
const ENROL =
  'Enrol the machine. If it is enrolled, its TPM was cleared or replaced, or its key secret was lost: reset the machine and enrol it again.';
const AGENT =
  'Install the agent of this release on the machine: it creates attestation keys and quotes in the accepted form.';

/** Refusals of TPM quotes, one for each check. Field names are those of TPM 2.0 Library Part 2. */
export const quoteErrors = defineErrors({
  'quote-document-malformed': refusal('The evidence document that contains the quote is malformed.', ALTERED),
  'quote-key-malformed': refusal('The public area of the attestation key is malformed.', ALTERED),
  'quote-key-attributes': refusal(
    'The attestation key is not a restricted signing key that was created in the TPM and cannot leave it.',
    AGENT,
  ),
  'quote-key-scheme': refusal(
    'The attestation key has no fixed signature scheme, or has a scheme that is not accepted.',
    AGENT,
  ),
  'quote-key-unknown': refusal('The attestation key is not enrolled in this cluster.', ENROL),
  'quote-magic': refusal('The signed statement was not generated inside a TPM.', ALTERED),
  'quote-type': refusal('The signed statement is not a quote.', ALTERED),
  'quote-attest-malformed': refusal('The signed statement is malformed.', ALTERED),
  'quote-signature-malformed': refusal('The signature structure is malformed.', ALTERED),
  'quote-signature-algorithm': refusal(
    'The statement is unsigned, or signed with SHA-1 or another algorithm that is not accepted.',
    AGENT,
  ),
  'quote-signature-scheme': refusal(
    'The signature was made with another scheme than the fixed scheme of the key.',
    ALTERED,
  ),
  'quote-signature-form': refusal(
    'The signature is not in canonical form: padded coordinates, s in the lower half.',
    ALTERED,
  ),
  'quote-signature': refusal('The attestation key did not sign this statement.', ALTERED),
  'quote-qualified-signer': refusal(
    'The qualified signer in the statement is not the attestation key.',
    AGENT,
  ),
  'quote-proof-malformed': refusal('The Merkle path does not fit the size of its tree.', ALTERED),
  'quote-binding': refusal(
    'The quote does not match this session: it was replayed, relayed, made for another verifier, or its event log was exchanged.',
    'Repeat the command to get a new quote. If it fails again, look for a proxy between the two ends.',
  ),
  'quote-pcr-bank': refusal('The quote covers another PCR bank than SHA-256.', AGENT),
  'quote-pcr-selection': refusal('The quote does not select PCRs of exactly one bank.', AGENT),
  'quote-pcr-missing': refusal(
    'The quote does not cover a PCR that the policy requires.',
    'Configure the agent to quote all PCRs of the policy (`requiredPcrs`).',
  ),
  'quote-pcr-resettable': refusal(
    'The quote covers only PCRs that any software can reset (16 and 23).',
    'Quote at least one PCR that only a restart resets.',
  ),
  'quote-pcr-values': refusal(
    'The PCR values are not one SHA-256 value for each selected PCR, in order.',
    ALTERED,
  ),
  'quote-pcr-digest': refusal('The PCR values do not match the signed digest.', ALTERED),
  'quote-clock-backward': refusal(
    'The clock or reset count of the TPM is behind its last quote: the quote is old, or the TPM state was restored from a copy.',
    'If the TPM state was restored from a copy, reset the machine and enrol it again.',
  ),
  'quote-clock-unsafe': refusal(
    'The TPM lost power without an orderly shutdown, so its clock may have gone back.',
    'Shut the machine down gracefully and start it again, or set `requireSafeClock: false` in the policy.',
  ),
  'quote-eventlog-missing': refusal(
    'The policy requires the firmware event log, and the evidence has none, or it was too large to be included.',
    'Check that the kernel provides /sys/kernel/security/tpm0/binary_bios_measurements (at most 60 KiB).',
  ),
  'quote-lock-counter': refusal(
    'The certificate of the lock counter was not signed by the key of the quote, or is for another quote or another counter.',
    ALTERED,
  ),
  'quote-nv-index': refusal(
    'The certificate is for another NV index than expected, or the index was defined differently.',
    ALTERED,
  ),
  'quote-nv-range': refusal('The certificate covers another part of the NV index than requested.', ALTERED),
});

/** Codes of TPM quote refusals. */
export type QuoteErrorCode = keyof typeof quoteErrors;
