/**
 * The keys that all control planes share: show and rotate them, and prove by a removal probe that credentials made with the
 * old ones are refused.
 */
export { followRotation } from './follow-rotation.ts';
export {
  awaitCredentialsRefused,
  probeCredentials,
  REFUSAL_TIMEOUT_MS,
  type HeldKeys,
  type ProbeResults,
  type RemovalCheck,
} from './removal-probe.ts';
export { requestRotation, runKeysRotate, runKeysShow, type RotateOptions } from './rotate-keys.ts';
export { describeSharedKeys, SHARED_KEYS, type KeysOutcome } from './shared-keys.ts';
export { KeysError, keysErrors, type KeysErrorCode } from './errors.ts';
