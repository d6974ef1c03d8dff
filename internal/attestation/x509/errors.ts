import { Asn1Error } from '../asn1/index.ts';
import { defineErrors, errorClass, fault } from '../../errors/index.ts';

const refusal = fault.peer.refused;
const altered =
  'Fetch the document again from its manufacturer: it was altered, or a faulty tool created it.';
const wrongChain =
  'Compare issuer and subject of the certificates in the order leaf, intermediate, root, and replace the certificate that does not fit.';
/** The fix of every refusal that newer documents of AMD and Intel solve. */
export const REFRESH_COLLATERAL =
  'Run `cluster attest collateral refresh`, then `cluster attest collateral upload`.';

/** Refusals of certificates and CRLs. */
export const x509Errors = defineErrors({
  'x509-pem-malformed': refusal(
    'A PEM file contains text outside its blocks, or base64 that is not canonical.',
    altered,
  ),
  'x509-malformed': refusal('A certificate or CRL does not have the structure of RFC 5280.', altered),
  'x509-algorithm-mismatch': refusal(
    'The signature algorithm outside the signed part differs from the signature algorithm inside the signed part.',
    altered,
  ),
  'x509-algorithm-unsupported': refusal(
    'A key or signature uses an algorithm or key size that is not accepted in machine evidence.',
    'Use RSA with 2048 to 8192 bits (PKCS#1 or PSS) or ECDSA on P-256 or P-384, with SHA-256, SHA-384 or SHA-512, or Ed25519.',
  ),
  'x509-extension-duplicate': refusal('An extension appears twice.', altered),
  'x509-extension-critical': refusal(
    'A certificate has a critical extension that this version does not support.',
    'Use a certificate without this extension, or upgrade to a release that supports it.',
  ),
  'x509-chain-length': refusal('The chain is empty or has more than 8 certificates.', wrongChain),
  'x509-issuer-mismatch': refusal(
    'The issuer that a certificate names is not the subject of the next certificate.',
    wrongChain,
  ),
  'x509-not-a-ca': refusal(
    'A certificate in the chain issued another certificate but is not a CA certificate, or the leaf is a CA certificate.',
    wrongChain,
  ),
  'x509-path-length': refusal('The chain is longer than the path length of a CA allows.', wrongChain),
  'x509-key-usage': refusal(
    'The key of a certificate is used in a way that its key usage extension does not allow.',
    wrongChain,
  ),
  'x509-not-yet-valid': refusal(
    'A certificate is not valid yet.',
    'Compare the clock of this machine with the start date of the certificate, and correct the clock if it is behind.',
  ),
  'x509-expired': refusal(
    'A certificate is expired.',
    `Renew the certificate. If a chip manufacturer issued the certificate: ${REFRESH_COLLATERAL}`,
  ),
  'x509-signature': refusal('A certificate or CRL was not signed by the key of its issuer.', altered),
  'x509-root-untrusted': refusal(
    'The chain ends in a root certificate that is not trusted.',
    'For a TPM, add the root of its manufacturer to the cluster configuration. For SEV-SNP and TDX, only the built-in roots of AMD and Intel are genuine.',
  ),
  'x509-revoked': refusal(
    'The issuer of a certificate has revoked it.',
    'Do not trust this machine. Ask its manufacturer why the certificate was revoked.',
  ),
  'x509-crl-missing': refusal(
    'The CRL of an issuer is missing, so that its certificates cannot be checked for revocation.',
    REFRESH_COLLATERAL,
  ),
  'x509-crl-issuer': refusal(
    'A CRL was issued by another CA than the certificates that are checked with it.',
    altered,
  ),
  'x509-crl-not-yet-valid': refusal(
    'The issue date of a CRL is in the future.',
    'Compare the clock of this machine with the date of the CRL, and correct the clock if it is behind.',
  ),
  'x509-crl-expired': refusal('A CRL is expired (past its next update).', REFRESH_COLLATERAL),
});

/** A certificate or CRL was refused. */
export class X509Error extends errorClass(x509Errors) {}

/** Runs `parse` and turns errors of the DER reader into X509Error `x509-malformed`. */
export function withX509Errors<T>(doing: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Asn1Error) throw new X509Error('x509-malformed', doing, { cause: error });
    throw error;
  }
}

/** The date that a document is valid from or until, and the date that it was verified for, as details of a refusal. */
export function datesOf(
  bound: 'from' | 'until',
  boundMs: number,
  atMs: number,
): { readonly expected: string; readonly actual: string } {
  return { expected: `${bound} ${new Date(boundMs).toISOString()}`, actual: new Date(atMs).toISOString() };
}
