/**
 * What control planes distribute to the other members: components of the bundle by hash, the directory of control
 * planes, the collateral, the configuration, and the progress of key rotations. Callers are authorized in the same
 * way as callers of the curator. This service stores nothing itself.
 *
 * ```
 * etcd ─▶ curator's NodeFeed ─▶ DirectoryFeed (shared) ─▶ WatchDirectory
 * etcd ─▶ ClusterCollateral (joinservice/evidence) ──────────▶ FetchCollateral
 * etcd ─▶ watchKeyStage() (shared) ─▶ WatchDirectory; the record itself ─▶ FetchKeys
 * etcd ─▶ watchConfigurationHash() (shared) ─▶ WatchDirectory; the document itself ─▶ FetchConfiguration
 * etcd ─▶ RemovedList (joinservice/removedmachines) ─▶ WatchDirectory; the machines ─▶ FetchRemovals
 * kept worker ─ ReportRemovals ─▶ takeReport() (joinservice/removedmachines)
 * store, seeds (read only) ────────────────────────────────▶ FetchBlob
 * ```
 */
export { DirectoryFeed } from './directory-feed.ts';
export { distributionHandlers } from './distribution-handlers.ts';
export { watchConfigurationHash, watchKeyStage } from './watched-keys.ts';
