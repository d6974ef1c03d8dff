/**
 * Use cases of `cluster attest …`: explain evidence offline, measure this machine, fetch and keep collateral. They combine
 * the validators of `internal/attestation` with files and add no trust decision of their own.
 */
export { readCollateral } from './collateral-files.ts';
export { runCollateralRefresh } from './collateral-refresh.ts';
export type { RefreshOptions } from './fetch-documents.ts';
export { collateralTable, runAttestCollateral, type CollateralOptions } from './collateral.ts';
export { AttestError, attestErrors } from './errors.ts';
export { runAttestExplain } from './explain.ts';
export type { ExplainOptions } from './inputs.ts';
export type { Explanation } from './render-explanation.ts';
export { runAttestMeasure, type MeasureOptions } from './measure.ts';
