/**
 * Domain layer: rotation of the keys that all control planes share, as values. A `KeySet` has the keys of two generations and the
 * phase of the rotation from one to the other. Which keys are trusted and which key signs depends on nothing else.
 */
export { createClusterCa, signingClusterCa, trustedClusterCas } from './cluster-ca.ts';
export { DISK_SHARES_FILE, parseDiskSharesSecret } from './disk-shares.ts';
export { CLUSTER_CA, followedClusterCas, type KnownClusterCa } from './followed-ca.ts';
export { planRotation, rotationMemberFrom, type RotationMember } from './plan-rotation.ts';
export {
  activePairs,
  CA_COMMON_NAMES,
  isReplaced,
  trustedPem,
  trustedPublicPem,
  encodeKeySet,
  signingPair,
  createPairs,
  parseKeySet,
  publicPartsOf,
  ROTATION_FILE,
  type KeySet,
  publicHalvesOf,
  type RotatingPair,
  type RotatingPairs,
} from './key-set.ts';
export {
  createEncryptionKey,
  currentEncryption,
  ENCRYPTABLE_RESOURCES,
  ENCRYPTION_KEY,
  encryptionKeyFrom,
  encryptionKeysIn,
  withoutReplacedSecrets,
  type CurrentEncryption,
  type EncryptableResource,
  type EncryptionKey,
  type EncryptionKeys,
} from './encryption-keys.ts';
export {
  createServersCa,
  kubeletTrustPem,
  SERVERS_CA,
  SERVERS_CA_NAME,
  serversTrustPem,
} from './servers-ca.ts';
export {
  FIRST_GENERATION,
  hasReached,
  isPhaseAtLeast,
  KEY_PHASES,
  LATER_KEYS,
  ROTATING_KEYS,
  storedPhase,
  formatStage,
  type KeyPhase,
  type KeyStage,
  type RotatingKey,
} from './phases.ts';
export {
  areSignedClientCas,
  areSignedKeys,
  areSignedServerCas,
  newKeysStatement,
  publicKeysOf,
  serversCasIn,
  signedKeysOf,
  type PublicKeys,
  type SignedKeys,
} from './signed-keys.ts';
