import { defineErrors } from '../../errors/index.ts';
import { refusedCheck as refusal } from '../errors.ts';

const ALTERED =
  'Compare the version of the agent with that of the cluster (`cluster node ls --wide`) and restart its bootstrapper.service. If it stays so, do not trust the machine: its evidence was altered.';
const ENROL =
  'Enrol the machine; if it is enrolled, its TPM was cleared, replaced, or its key secret is lost: reset and enrol it again.';
const AGENT =
  'Use the agent of this version: it makes its attestation key and its quotes in the one accepted form.';

/** Refusals of TPM quotes, by check. Field names are those of TPM 2.0 Library Part 2. */
export const quoteErrors = defineErrors({
  'quote-document-malformed': refusal('The evidence document around the quote is not well-formed.', ALTERED),
  'quote-key-malformed': refusal('The public area of the attestation key is not well-formed.', ALTERED),
  'quote-key-attributes': refusal(
    'The attestation key is not a restricted signing key that lives and dies in one TPM.',
    AGENT,
  ),
  'quote-key-scheme': refusal(
    'The attestation key has no fixed signature scheme, or an unaccepted one.',
    AGENT,
  ),
  'quote-key-unknown': refusal('The attestation key is not one of those this cluster enrolled.', ENROL),
  'quote-magic': refusal('The signed statement was not generated inside a TPM.', ALTERED),
  'quote-type': refusal('The signed statement is of another type than a quote.', ALTERED),
  'quote-attest-malformed': refusal('The signed statement is not well-formed.', ALTERED),
  'quote-signature-malformed': refusal('The signature structure is not well-formed.', ALTERED),
  'quote-signature-algorithm': refusal(
    'The statement is unsigned, or signed with SHA-1 or another unaccepted algorithm.',
    AGENT,
  ),
  'quote-signature-scheme': refusal(
    'The signature was made by another scheme than the key is fixed to.',
    ALTERED,
  ),
  'quote-signature-form': refusal(
    'The signature is not in its one canonical form: padded coordinates, s in the lower half.',
    ALTERED,
  ),
  'quote-signature': refusal('The attestation key did not sign this statement.', ALTERED),
  'quote-qualified-signer': refusal(
    'The statement names another signer than the attestation key in its hierarchy.',
    AGENT,
  ),
  'quote-proof-malformed': refusal('The Merkle path is not that of one leaf in a tree of its size.', ALTERED),
  'quote-binding': refusal(
    'The quote is not bound to this session: replayed, relayed, made for somebody else, or its event log was exchanged.',
    'Ask for fresh evidence.',
  ),
  'quote-pcr-bank': refusal('The quote is over another PCR bank than SHA-256.', AGENT),
  'quote-pcr-selection': refusal('The quote does not select PCRs of exactly one bank.', AGENT),
  'quote-pcr-missing': refusal(
    'The quote leaves out a PCR that the policy asks for.',
    'Configure the agent to quote all PCRs of the policy.',
  ),
  'quote-pcr-resettable': refusal(
    'The quote is only over PCRs that any software can reset (16 and 23).',
    'Quote PCRs that only a restart resets.',
  ),
  'quote-pcr-values': refusal(
    'The PCR values are not exactly those selected, one SHA-256 value each, in order.',
    ALTERED,
  ),
  'quote-pcr-digest': refusal('The PCR values are not those that were signed.', ALTERED),
  'quote-clock-backward': refusal(
    'The TPM’s clock or reset count is behind what this key showed before: an old quote or a restored TPM state.',
    'If the TPM was restored from a copy, reset the machine and enrol it again.',
  ),
  'quote-clock-unsafe': refusal(
    'The TPM lost power without an orderly shutdown, so its clock may have gone back.',
    'Restart the machine in an orderly way, or do not ask for a safe clock.',
  ),
  'quote-eventlog-missing': refusal(
    'The evidence has no firmware event log, or one with no room in it, and the policy asks for one.',
    'See that the kernel shows /sys/kernel/security/tpm0/binary_bios_measurements.',
  ),
  'quote-lock-counter': refusal(
    'The certificate of the lock counter is not by the key of the quote, for this quote, or over the lock counter.',
    ALTERED,
  ),
  'quote-nv-index': refusal('The certified NV index is another one, or was defined differently.', ALTERED),
  'quote-nv-range': refusal('The certificate is over another part of the NV index than asked for.', ALTERED),
});

export type QuoteErrorCode = keyof typeof quoteErrors;
