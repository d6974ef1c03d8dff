import { defineErrors } from '../../errors/index.ts';
import { refusedCheck as refusal } from '../errors.ts';

const ALTERED = 'The report was altered, cut off, or comes from firmware newer than this version knows.';
const OTHER_CERTIFICATE =
  'Fetch the certificate of exactly this chip and reported TCB from AMD, or refresh the collateral bundle.';
const POLICY = 'If it is meant to be so, allow it in the `sev-snp` section of the attestation policy.';

/** Refusals of AMD SEV-SNP evidence, by check. Field names are those of AMD publication 56860, table 23. */
export const snpErrors = defineErrors({
  'snp-document-malformed': refusal('The evidence document around the report is not well-formed.', ALTERED),
  'snp-report-size': refusal('An SNP report has 1184 bytes; this one has not.', ALTERED),
  'snp-report-version': refusal('The version of the report is not one of 2 to 5.', ALTERED),
  'snp-signature-algorithm': refusal('The report is not signed by ECDSA P-384 with SHA-384.', ALTERED),
  'snp-reserved-not-zero': refusal('A reserved field of the report is not zero.', ALTERED),
  'snp-guest-policy-malformed': refusal('The guest policy has reserved bits in the wrong state.', ALTERED),
  'snp-signing-key': refusal('The report says that it was signed by neither VCEK nor VLEK.', ALTERED),
  'snp-signature-range': refusal(
    'A scalar of the signature is zero, too large or padded with other bytes than zero.',
    ALTERED,
  ),
  'snp-signature': refusal('The report was not signed by the key of its certificate.', ALTERED),
  'snp-product-unknown': refusal(
    'The processor family and model in the report belong to no product whose root is pinned.',
    'This version knows Milan, Genoa and Turin.',
  ),
  'snp-product-mismatch': refusal(
    'The certificates are those of another product than the report.',
    OTHER_CERTIFICATE,
  ),
  'snp-product-not-allowed': refusal('The policy does not allow this processor product.', POLICY),
  'snp-certificate-missing': refusal(
    'There is no certificate of the chip, or none of the authority that issued it.',
    OTHER_CERTIFICATE,
  ),
  'snp-chain': refusal('The certificates do not form a chain up to a pinned root of AMD.', OTHER_CERTIFICATE),
  'snp-certificate-kind': refusal(
    'The report was signed by a VCEK and the certificate is a VLEK’s, or the other way round.',
    OTHER_CERTIFICATE,
  ),
  'snp-certificate-issuer': refusal(
    'The chip certificate was not issued by the authority for its kind and product.',
    OTHER_CERTIFICATE,
  ),
  'snp-certificate-extension': refusal(
    'An AMD extension of the chip certificate is missing, double or malformed.',
    OTHER_CERTIFICATE,
  ),
  'snp-certificate-key': refusal('The key of the chip certificate is not on P-384.', OTHER_CERTIFICATE),
  'snp-chip-masked': refusal(
    'The host hides the chip id or the chip key, so the report cannot be tied to a VCEK.',
    'Unset MASK_CHIP_ID and MASK_CHIP_KEY in the firmware configuration of the host, or use a VLEK.',
  ),
  'snp-chip-mismatch': refusal('The certificate is that of another chip than the report.', OTHER_CERTIFICATE),
  'snp-tcb-mismatch': refusal('The certificate is for another TCB than the reported one.', OTHER_CERTIFICATE),
  'snp-tcb-reported': refusal(
    'The reported TCB is below the minimum.',
    'Update the firmware of the host, then commit it.',
  ),
  'snp-tcb-committed': refusal(
    'The committed TCB is below the minimum: older firmware could come back.',
    'Commit the new firmware on the host (SNP_COMMIT).',
  ),
  'snp-tcb-launch': refusal(
    'The machine was started under a TCB below the minimum.',
    'Start the machine again on the updated host.',
  ),
  'snp-tcb-order': refusal(
    'The reported or committed TCB is above the current one, which firmware never reports.',
    ALTERED,
  ),
  'snp-firmware-provisional': refusal(
    'The firmware of the host is provisional: the committed version is not the running one.',
    POLICY,
  ),
  'snp-debug': refusal('The guest policy lets the host read the memory of the machine (debug).', POLICY),
  'snp-migration': refusal('The guest policy lets a migration agent move the machine.', POLICY),
  'snp-smt': refusal('The guest policy allows simultaneous multithreading.', POLICY),
  'snp-vmpl': refusal('The report was asked for at a less privileged level than allowed.', POLICY),
  'snp-binding': refusal(
    'The report data is not the binding of this session: replayed, relayed or made for somebody else.',
    'Ask for fresh evidence.',
  ),
  'snp-csp': refusal('The provider whose VLEK signed the report is not allowed.', POLICY),
  'snp-author-key': refusal('The machine was not launched by an allowed author key.', POLICY),
  'snp-id-key': refusal('The machine was not launched with an id block of an allowed key.', POLICY),
  'snp-host-data': refusal('The host data is not an allowed one.', POLICY),
  'snp-revocation': refusal(
    'There is no CRL to check the chip’s authorities with, and the policy asks for one.',
    'Refresh the collateral bundle.',
  ),
  'snp-collateral-age': refusal('The CRL is older than the policy allows.', 'Refresh the collateral bundle.'),
});

export type SnpErrorCode = keyof typeof snpErrors;
