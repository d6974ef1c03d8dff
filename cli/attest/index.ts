/**
 * Use cases of `cluster attest …`: look at evidence offline, measure this machine, keep collateral. They put the pure
 * validators of `internal/attestation` together with files; nothing here decides over trust.
 */
export { CollateralStore } from './collateral-store.ts';
export { runCollateralRefresh, type RefreshOptions } from './collateral-refresh.ts';
export { collateralTable, runAttestCollateral, type CollateralOptions } from './collateral.ts';
export { AttestError, attestErrors, type AttestErrorCode } from './errors.ts';
export { runAttestExplain } from './explain.ts';
export type { Explanation } from './explanation.ts';
export type { ExplainOptions } from './inputs.ts';
export { runAttestMeasure, type MeasureOptions } from './measure.ts';
