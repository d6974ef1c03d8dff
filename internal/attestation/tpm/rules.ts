/** PCRs that any software can reset (PC Client Platform TPM Profile 4.6.2), so that their values prove nothing. */
export const RESETTABLE_PCRS: readonly number[] = [16, 23];

/** The `tpm` section of a policy. */
export interface TpmRules {
  /**
   * The attestation keys that may sign.
   * - `enrolled`: only keys in `TpmEndorsements`, each linked to a machine.
   * - `enrolling`: also unknown keys, so that credential activation can run in the session; the identity in the verdict
   * is
   *   then `unproved`, and the list of accepted machines still applies.
   */
  readonly attestationKeys: 'enrolled' | 'enrolling';
  /** PCRs that must be quoted (SHA-256 bank); at least one of them must not be resettable by software. */
  readonly requiredPcrs: readonly number[];
  /** Whether TPMS_CLOCK_INFO.safe must be 1: the last shutdown was orderly, so that the clock did not go back. */
  readonly requireSafeClock: boolean;
  /** `required`: evidence is refused without a firmware event log; `optional`: a log is checked if present. */
  readonly eventLog: 'required' | 'optional';
  /**
   * PCRs to which the log must replay, if they are quoted. The firmware event log does not contain what the agent
   * extends (lock register).
   */
  readonly loggedPcrs: readonly number[];
}

/** Attestation keys that this cluster knows, by TPM Name in hex (two bytes of hash algorithm, then the hash). */
export interface TpmEndorsements {
  readonly attestationKeys: ReadonlyMap<string, KnownAttestationKey>;
}

/** The record of the cluster about an attestation key (AK). */
export interface KnownAttestationKey {
  /** SHA-256 of the SubjectPublicKeyInfo (DER) of the EK, hex; absent if only the AK is pinned. */
  readonly endorsementKeyId?: string;
  /** Qualified Name (hex) of an AK that is not a primary key of the endorsement hierarchy, as some cloud providers create. */
  readonly qualifiedName?: string;
  /** Clock of the last accepted quote of this key. A later quote must not be older. */
  readonly lastSeen?: TpmClock;
}

/** TPMS_CLOCK_INFO (TPM 2.0 Part 2, 10.11.1). */
export interface TpmClock {
  /** Milliseconds with power since the TPM was cleared. */
  readonly clockMs: bigint;
  readonly resetCount: number;
  readonly restartCount: number;
  readonly safe: boolean;
}
