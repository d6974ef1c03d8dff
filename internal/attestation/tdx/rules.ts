/** Intel's words for the state of a platform's TCB, from its signed TCB info; the last two arise from TD 1.5 reports. */
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

export type TdxTcbStatus = (typeof TDX_TCB_STATUSES)[number];

/** `any`, `zero`, or the accepted values in lower-case hex. */
export type FieldRule = 'any' | 'zero' | readonly string[];

/** What the policy asks of TDX evidence beyond register values. Nothing here has a default that accepts. */
export interface TdxRules {
  /** `Revoked` is refused even if it stands here. */
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
  /** `required`: refused without a CCEL that replays to the RTMRs; `optional`: checked when it is there. */
  readonly eventLog: 'required' | 'optional';
}

/** A JSON text exactly as Intel signed it, and the signature: r then s, 32 bytes each. */
export interface SignedJson {
  readonly text: string;
  readonly signature: Uint8Array;
}

/** Intel's signed data, from the collateral bundle. Untrusted until verified. */
export interface TdxCollateral {
  /** DER: the TCB signing certificate, PCK authorities. */
  readonly certificates: readonly Uint8Array[];
  /** DER: of Intel's root and of the PCK authorities. */
  readonly crls: readonly Uint8Array[];
  readonly tcbInfos: readonly SignedJson[];
  readonly qeIdentities: readonly SignedJson[];
  /** The highest tcbEvaluationDataNumber this verifier has used before; older collateral is then refused. */
  readonly seenEvaluationNumber?: number;
}
