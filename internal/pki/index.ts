/**
 * Domain: X.509 as this cluster uses it. Authorities, the seam to whoever holds their key (`Signer`), requests, and the
 * certificates of members: issued by `nodeLeaf` and `operatorLeaf`, read back by `verifyMember`; and of the services of a
 * control plane, which have a key of their own: `curatorLeaf` and `verifyCurator`.
 */
export {
  CLOCK_TOLERANCE_MS,
  createAuthorityPem,
  KeySigner,
  type LeafSpec,
  type Signer,
  type SubjectName,
  type Usage,
} from './authority.ts';
export {
  curatorLeaf,
  delegationStatement,
  verifyControlPlane,
  verifyCurator,
  type CuratorIdentity,
  type Delegation,
} from './curator.ts';
export { PkiError, pkiErrors, type PkiErrorCode } from './errors.ts';
export { fingerprintOfKey, generateKeyPem, keyPemFromSeed, nodeIdOf, pubKeyOf, spkiOf } from './keys.ts';
export {
  nodeLeaf,
  operatorLeaf,
  verifyMember,
  isControlPlaneCertificate,
  verifyNode,
  type MemberIdentity,
  type MemberTrust,
} from './member.ts';
export { createRequest, verifyRequest } from './request.ts';
export { reissueCertificate } from './reissue.ts';
export { certificateTimesOf, renewalTimeOf, type CertificateTimes } from './validity.ts';
