/**
 * Code that the join service and the signer share to verify evidence: the attestation policy of the configuration,
 * the collateral of manufacturers, the machine that evidence identifies, and the addresses that a machine may have.
 */
export { bundleIn, ClusterCollateral } from './cluster-collateral.ts';
export {
  attestationKeyNameOf,
  evidenceIdentityOf,
  isSameMachine,
  type EvidenceIdentity,
} from './evidence-identity.ts';
export { canonicalAddress, whyAddressReserved } from './node-address.ts';
export { controlPlaneAt, reserveAddress } from './reserved-address.ts';
export { joinValidators, readAttestation, type ActiveAttestation } from './read-attestation.ts';
