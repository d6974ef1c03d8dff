/**
 * Code that the join service and the signer share to verify evidence. It reads the attestation policy and the
 * collateral of manufacturers, finds the machine that evidence identifies and its member, and checks the address of a machine.
 */
export { bundleIn, ClusterCollateral } from './cluster-collateral.ts';
export {
  attestationKeyNameOf,
  evidenceIdentityOf,
  isSameMachine,
  type EvidenceIdentity,
} from './evidence-identity.ts';
export { memberOfIdentity } from './member-of-identity.ts';
export { whyAddressReserved } from './node-address.ts';
export { controlPlaneAt, reserveAddress } from './reserved-address.ts';
export { joinValidators, readAttestation, type ActiveAttestation } from './read-attestation.ts';
