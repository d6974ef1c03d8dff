/**
 * What AMD and Intel say beside evidence, as this machine has it: it judges join services by it, before it is a member and
 * whenever it renews its certificates.
 *
 * ```
 * beside the provisioning ─▶ ProvisionedCollateral ─┐
 * curators ─▶ collateralWorker (every few minutes) ─┴▶ CollateralShelf ─▶ disk, then in force for validators
 *                                                        └ signatures, dates, nothing older: else what is there stays
 * ```
 */
export { collateralWorker, type CollateralWorkerOptions } from './collateral-worker.ts';
export { NodeCollateralError, nodeCollateralErrors } from './errors.ts';
export { ProvisionedCollateral } from './provisioned-collateral.ts';
export { CollateralCache, type CachedCollateral } from './collateral-cache.ts';
