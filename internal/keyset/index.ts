/**
 * Domain: how the keys that control planes share are replaced, as values. A `KeySet` has the keys of two generations and the
 * phase of the way from one to the other; what is believed and what signs follows from it and from nothing else.
 */
export { advance, type Advance, type Awaited, type KeyMember, type RotationNow } from './advance.ts';
export { KeySetError, keySetErrors, type KeySetErrorCode } from './errors.ts';
export {
  AUTHORITY_NAMES,
  believed,
  believedOf,
  encodeKeySet,
  issuing,
  makePairs,
  parseKeySet,
  publicsOf,
  type KeySet,
  type RotatingPair,
  type RotatingPairs,
} from './key-set.ts';
export {
  hasReached,
  isFrom,
  KEY_PHASES,
  ROTATING_KEYS,
  stageFrom,
  stageText,
  type KeyPhase,
  type KeyStage,
  type RotatingKey,
} from './names.ts';
