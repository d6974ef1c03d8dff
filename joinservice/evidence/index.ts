/**
 * What the join service and the signer both judge by: the operators' document as it speaks of evidence, the collateral of
 * manufacturers, which machine evidence is of, and which addresses a machine can have.
 */
export { collateralIn, CollateralSource } from './collateral-source.ts';
export { akNameOf, evidenceOf, isSameMachine, type CommitEvidence } from './machine-of.ts';
export { canonicalAddress, reservedFor } from './node-address.ts';
export { joinValidators, readAttestation, type AttestationInForce } from './read-attestation.ts';
