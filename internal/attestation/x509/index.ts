/**
 * X.509 certificates and CRLs in machine evidence, with a strict parser and verifier.
 *
 *   PEM ──parsePem──▶ DER ──parseCertificate──▶ Certificate ─┐
 *                      └──parseCrl──▶ Crl ──verifyCrl──┐     ├─verifyPath──▶ trusted up to a pinned root
 *                                                      └─────┴─checkNotRevoked
 *
 * node:crypto is used only for keys and signatures, because its certificates accept trailing bytes, issuers that are not CAs
 * and unknown critical extensions. Every refusal is an `X509Error` with its own code.
 */
export { CertificateCache } from './certificate-cache.ts';
export { parseCertificate, type Certificate } from './certificate.ts';
export { checkNotRevoked, parseCrl, verifyCrl, type Crl } from './crl.ts';
export { REFRESH_COLLATERAL, X509Error, x509Errors } from './errors.ts';
export { EXTENSION, readExtension } from './extensions.ts';
export { attributeOf, COMMON_NAME, describeName, parseName, type DistinguishedName } from './name.ts';
export { buildChain, verifyAuthorityPath, verifyPath } from './path.ts';
export { decodeBase64, parsePem } from './pem.ts';
export { parsePublicKey } from './public-key.ts';
export { isEcdsaSignatureValid } from './signature.ts';
export { allowsUsage } from './standard-extensions.ts';
