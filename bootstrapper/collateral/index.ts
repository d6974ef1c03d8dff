/**
 * The collateral of AMD and Intel on this machine. It verifies join services with it, before it is a member and whenever it
 * renews its certificates.
 *
 * ```
 * file beside the provisioning ─────────▶ CollateralCache ─▶ disk, then `current` for validators
 * curators ─▶ collateralWorker (polls) ──▶  └ checks signatures, dates, that nothing is older; else keeps what it has
 * ```
 */
export { CollateralCache, type CachedCollateral } from './collateral-cache.ts';
export { collateralWorker, type CollateralWorkerOptions } from './collateral-worker.ts';
