/**
 * Domain: how the keys that control planes share are replaced, as values. A `KeySet` has the keys of two generations and the
 * phase of the way from one to the other; what is believed and what signs follows from it and from nothing else.
 */
export {
  planRotation,
  type RotationPlan,
  type PendingMember,
  type RotationMember,
  type RotationRecord,
} from './plan-rotation.ts';
export { KeySetError, keySetErrors, type KeySetErrorCode } from './errors.ts';
export {
  CA_COMMON_NAMES,
  trustedPem,
  trustedPublicPem,
  encodeKeySet,
  signingPair,
  createPairs,
  parseKeySet,
  publicPartsOf,
  type KeySet,
  type RotatingPair,
  type RotatingPairs,
} from './key-set.ts';
export {
  hasReached,
  isPhaseAtLeast,
  KEY_PHASES,
  ROTATING_KEYS,
  parseStage,
  formatStage,
  type KeyPhase,
  type KeyStage,
  type RotatingKey,
} from './phases.ts';
