/**
 * The keys that all control planes share: show and rotate them, and test with a removal probe whether credentials made with
 * the old ones are refused.
 */
export { awaitChecks, type RemovalCheck } from './await-checks.ts';
export { KeysError, keysErrors } from './errors.ts';
export { followRotation, followUntilSigned } from './follow-rotation.ts';
export {
  awaitCredentialsRefused,
  runRemovalProbe,
  type HeldKeys,
  type ProbeResults,
} from './removal-probe.ts';
export { requestRotation, runKeysRotate, runKeysShow, type RotateOptions } from './rotate-keys.ts';
export { restartSystemPods } from './system-pods.ts';
export {
  describeSharedKeys,
  SHARED_KEYS,
  type KeysOnDisk,
  type KeysOutcome,
  type SharedKey,
} from './shared-keys.ts';
