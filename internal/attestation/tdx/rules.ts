/** Intel's names for the status of a TCB, from the signed TCB info. The last two apply to TD 1.5 reports. */
export const TDX_TCB_STATUSES = [
  'UpToDate',
  'SWHardeningNeeded',
  'ConfigurationNeeded',
  'ConfigurationAndSWHardeningNeeded',
  'OutOfDate',
  'OutOfDateConfigurationNeeded',
  'Revoked',
  'TDRelaunchAdvised',
  'TDRelaunchAdvisedConfigurationNeeded',
] as const;

/** One of `TDX_TCB_STATUSES`. */
export type TdxTcbStatus = (typeof TDX_TCB_STATUSES)[number];

/** Accepted values of a field: `any`, `zero`, or a list in lower-case hex. */
export type FieldRule = 'any' | 'zero' | readonly string[];

/** The `tdx` section of a policy. A missing rule accepts nothing. */
export interface TdxRules {
  /** Accepted statuses. `Revoked` is refused even if it is listed. */
  readonly tcbStatuses: readonly TdxTcbStatus[];
  /** The lowest tcbEvaluationDataNumber of TCB info and QE identity. */
  readonly minimumEvaluationNumber: number;
  readonly maxCollateralAgeMs: number;
  readonly allowDebug: boolean;
  readonly allowMigration: boolean;
  readonly allowServiceTd: boolean;
  readonly requireSeptVeDisable: boolean;
  readonly mrConfigId: FieldRule;
  readonly mrOwner: FieldRule;
  readonly mrOwnerConfig: FieldRule;
  /**
   * `required`: evidence is refused without a CCEL that replays to the RTMRs; `optional`: a CCEL is checked if present.
   */
  readonly eventLog: 'required' | 'optional';
}

/** A JSON text as Intel signed it, and the signature: r then s, 32 bytes each. */
export interface SignedJson {
  readonly text: string;
  readonly signature: Uint8Array;
}

/** Intel's signed data, from the collateral bundle. Untrusted until verified. */
export interface TdxCollateral {
  /** The TCB signing certificate and PCK CAs, DER. */
  readonly certificates: readonly Uint8Array[];
  /** CRLs of the Intel root and of the PCK CAs, DER. */
  readonly crls: readonly Uint8Array[];
  readonly tcbInfos: readonly SignedJson[];
  readonly qeIdentities: readonly SignedJson[];
  /** The highest tcbEvaluationDataNumber this verifier has used before; older collateral is then refused. */
  readonly seenEvaluationNumber?: number;
}
