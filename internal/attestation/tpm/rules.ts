/** Any software resets these (PC Client Platform TPM Profile 4.6.2): what they hold proves nothing. */
export const RESETTABLE_PCRS: readonly number[] = [16, 23];

/** What the policy asks of TPM evidence beyond register values. */
export interface TpmRules {
  /**
   * Which attestation keys may sign.
   * - `enrolled`: only those in the endorsements, each tied to a machine.
   * - `enrolling`: unknown ones too, so that credential activation can run over the session; the verdict's
   *   identity is then `unproved` and a policy on machines still applies.
   */
  readonly attestationKeys: 'enrolled' | 'enrolling';
  /** PCRs that must be quoted (SHA-256 bank), at least one of which cannot be reset by software. */
  readonly requiredPcrs: readonly number[];
  /** TPMS_CLOCK_INFO.safe must be 1: the last shutdown was orderly, so the clock has not gone back. */
  readonly requireSafeClock: boolean;
  /** `required`: refused without a firmware event log; `optional`: checked in the same way when it is there. */
  readonly eventLog: 'required' | 'optional';
  /** PCRs whose values the log must lead to exactly, if they are quoted. The agent's own PCR is not in the firmware's log. */
  readonly loggedPcrs: readonly number[];
}

/** Attestation keys this cluster knows, by the hex of their TPM Name (two bytes of hash algorithm, then the hash). */
export interface TpmEndorsements {
  readonly attestationKeys: ReadonlyMap<string, KnownAttestationKey>;
}

/** How an AK became known, and what its last quote said of time. */
export interface KnownAttestationKey {
  /** SHA-256 of the DER SubjectPublicKeyInfo of the EK, hex; absent when only the AK itself is pinned. */
  readonly endorsementKeyId?: string;
  /**
   * Qualified Name (hex) of an AK that is no primary of the endorsement hierarchy, as cloud providers make them;
   * computed from the AK itself otherwise.
   */
  readonly qualifiedName?: string;
  /** From the last accepted quote of this key. A later quote may not be older. */
  readonly lastSeen?: TpmClock;
}

/** TPMS_CLOCK_INFO (TPM 2.0 Part 2, 10.11.1). */
export interface TpmClock {
  /** Milliseconds the TPM has been powered since it was last cleared. */
  readonly clockMs: bigint;
  readonly resetCount: number;
  readonly restartCount: number;
  readonly safe: boolean;
}
