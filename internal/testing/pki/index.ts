/** A public key infrastructure for tests: certificates and CRLs of any form, including invalid ones. */
export * as der from './der.ts';
export {
  encodeName,
  generateKey,
  issueCertificate,
  issueCrl,
  signatureAlgorithm,
  TEST_NOW_MS,
  toPem,
  type TestCertificate,
  type TestCertificateOptions,
  type TestExtension,
  type TestKey,
} from './certificate.ts';
