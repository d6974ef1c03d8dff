/**
 * Domain: X.509 as this cluster uses it. Authorities, the seam to whoever holds their key (`Signer`), requests, and the
 * certificates of members: issued by `nodeLeaf` and `operatorLeaf`, read back by `verifyMember`; and of the services of a
 * control plane, which have a key of their own: `curatorLeaf` and `verifyCurator`.
 */
export {
  CLOCK_TOLERANCE_MS,
  createCaCertPem,
  KeyCertificateSigner,
  type LeafSpec,
  type CertificateSigner,
  type SubjectName,
  type Usage,
} from './certificate-signer.ts';
export {
  curatorLeaf,
  delegationStatement,
  verifyControlPlaneCertificate,
  verifyCuratorCertificate,
  type CuratorIdentity,
  type Delegation,
} from './curator-certificate.ts';
export { PkiError, pkiErrors, type PkiErrorCode } from './errors.ts';
export {
  fingerprintOfKey,
  generateKeyPem,
  keyPemFromSeed,
  nodeIdOf,
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
export { createCertificateRequest, verifyCertificateRequest } from './certificate-request.ts';
export { reissueCertificate } from './reissue.ts';
export { certificateTimesOf, renewalTimeOf, type CertificateTimes } from './validity.ts';
