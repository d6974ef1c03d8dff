/**
 * The collateral of AMD and Intel on this machine. The machine uses it to verify join services, before it is
 * a member and at each renewal of its certificates.
 *
 * ```
 * file next to the provisioning ────────▶ CollateralCache ─▶ disk, then `current` for validators
 * curators ─▶ collateralWorker (polls) ──▶  └ checks signatures and dates; refuses older documents
 * ```
 */
export { CollateralCache, type CachedCollateral } from './collateral-cache.ts';
export { collateralWorker } from './collateral-worker.ts';
