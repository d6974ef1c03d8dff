/**
 * Domain layer: the certificates of this cluster (X.509).
 *
 * | certificate of                        | specified by   | verified by                 |
 * |---------------------------------------|----------------|-----------------------------|
 * | a node                                | `nodeLeaf`     | `verifyMemberCertificate`   |
 * | an operator                           | `operatorLeaf` | `verifyMemberCertificate`   |
 * | join service and curator of a node    | `curatorLeaf`  | `verifyCuratorCertificate`  |
 *
 * A `CertificateSigner` issues them with the key of a CA, which may be in another process.
 */
export { certificatesIn, hasCertificate, isIssuedByOneOf, issuerIn } from './ca-bundle.ts';
export {
  createCaCertPem,
  KeyCertificateSigner,
  type LeafSpec,
  type CertificateSigner,
  type SubjectName,
} from './certificate-signer.ts';
export { createCrossCertPem, isCrossCertificate, maySignCas } from './cross-certificate.ts';
export {
  curatorLeaf,
  delegationStatement,
  verifyControlPlaneCertificate,
  verifyCuratorCertificate,
} from './curator-certificate.ts';
export {
  fingerprintOfKey,
  generateKeyPem,
  keyPemFromSeed,
  MAX_PEM_BYTES,
  NODE_ID,
  nodeIdOf,
  nodeIdOfFingerprint,
  pubKeyDerOf,
  spkiDerOf,
} from './keys.ts';
export {
  nodeLeaf,
  operatorLeaf,
  verifyMemberCertificate,
  isControlPlaneCertificate,
  verifyNodeCertificate,
  type MemberIdentity,
  type MemberTrust,
} from './member-certificate.ts';
export { PkiError } from './errors.ts';
export { createCertificateRequest, verifyCertificateRequest } from './certificate-request.ts';
export { reissueCertificate } from './reissue.ts';
export { certificateTimesOf, renewalTimeOf, type CertificateTimes } from './validity.ts';
