/**
 * What the join service and the signer both judge by: the operators' document as it speaks of evidence, the collateral of
 * manufacturers, which machine evidence is of, and which addresses a machine can have.
 */
export { ClusterCollateral, collateralFromRecord } from './cluster-collateral.ts';
export {
  attestationKeyNameOf,
  evidenceIdentityOf,
  isSameMachine,
  type EvidenceIdentity,
} from './evidence-identity.ts';
export { canonicalAddress, whyAddressReserved } from './node-address.ts';
export { joinValidators, readAttestation, type ActiveAttestation } from './read-attestation.ts';
