import { Asn1Error } from '../asn1/index.ts';
import { defineErrors, errorClass, type ErrorSpec } from '../../errors/index.ts';

const altered =
  'The document was altered on its way or made by a faulty tool; fetch it again from its manufacturer.';
const wrongChain =
  'Look at the certificates in the order leaf, intermediate, root, and at who issued each of them.';

export const x509Errors = defineErrors({
  'x509-pem-malformed': refusal(
    'A PEM file holds more than clean blocks, or base64 in another form than the canonical one.',
    altered,
  ),
  'x509-malformed': refusal('A certificate or CRL does not have the structure of RFC 5280.', altered),
  'x509-algorithm-mismatch': refusal(
    'The signature algorithm outside the signed part is not the one inside.',
    altered,
  ),
  'x509-algorithm-unsupported': refusal(
    'A key or a signature uses an algorithm or a strength that is not accepted for machine evidence.',
    'Accepted are RSA from 2048 bits (PKCS#1 or PSS) and ECDSA on P-256 and P-384, with SHA-256, SHA-384 or SHA-512, and Ed25519.',
  ),
  'x509-extension-duplicate': refusal('An extension appears twice.', altered),
  'x509-extension-critical': refusal(
    'A critical extension is not known to this verifier, so its meaning cannot be obeyed.',
    'Use a certificate of a profile that this version knows.',
  ),
  'x509-chain-length': refusal('The chain has more or fewer certificates than its kind has.', wrongChain),
  'x509-issuer-mismatch': refusal(
    'The issuer named in a certificate is not the subject of the next one.',
    wrongChain,
  ),
  'x509-not-a-ca': refusal(
    'A certificate issued another one but is not an authority, or the leaf is one.',
    wrongChain,
  ),
  'x509-path-length': refusal('An authority issued a longer chain than it may.', wrongChain),
  'x509-key-usage': refusal('A certificate is used for something its key usage does not allow.', wrongChain),
  'x509-not-yet-valid': refusal(
    'A certificate is not valid yet at the time of the check.',
    'Compare the clock of this machine with the dates of the certificate.',
  ),
  'x509-expired': refusal(
    'A certificate has run out at the time of the check.',
    'Renew it; if it is a manufacturer’s, refresh the collateral bundle.',
  ),
  'x509-signature': refusal('A certificate or CRL was not signed by the key of its issuer.', altered),
  'x509-root-untrusted': refusal(
    'The chain ends in a root that is not pinned.',
    'If the root is right, add it to the policy; for AMD and Intel the roots are built in.',
  ),
  'x509-revoked': refusal(
    'A certificate has been revoked by its issuer.',
    'Do not trust this machine; ask its manufacturer why the certificate was revoked.',
  ),
  'x509-crl-missing': refusal(
    'There is no CRL of an issuer whose certificates must be checked for revocation.',
    'Refresh the collateral bundle.',
  ),
  'x509-crl-issuer': refusal(
    'A CRL was issued by another authority than the certificates it is used for.',
    altered,
  ),
  'x509-crl-not-yet-valid': refusal(
    'A CRL is from the future.',
    'Compare the clock of this machine with the date of the CRL.',
  ),
  'x509-crl-expired': refusal('A CRL is past its next update.', 'Refresh the collateral bundle.'),
});

export type X509ErrorCode = keyof typeof x509Errors;

export class X509Error extends errorClass(x509Errors) {}

/** Gives structural errors of the DER reader the code of this directory. */
export function withX509Errors<T>(doing: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Asn1Error) throw new X509Error('x509-malformed', doing, { cause: error });
    throw error;
  }
}

function refusal(meaning: string, fix: string): ErrorSpec {
  return { fault: 'peer', exit: 'refused', retryable: false, meaning, fix };
}
