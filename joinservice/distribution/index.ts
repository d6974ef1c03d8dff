/**
 * What control-plane nodes hand on to the other members: the bytes of the bundle by their hash, where control planes
 * are, and what the makers of processors say. Behind the curator's door; holds nothing that the disk and etcd do not.
 *
 * ```
 * etcd ─▶ curator's NodeFeed ─▶ DirectoryFeed (one for all) ─▶ WatchDirectory
 * etcd ─▶ ClusterCollateral (joinservice/evidence) ──────────▶ FetchCollateral
 * etcd ─▶ KeysFeed (one for all) ─▶ WatchDirectory; the record itself ─▶ FetchKeys
 * store, seeds (read only) ────────────────────────────────▶ FetchBlob
 * ```
 */
export { DirectoryFeed, type Directory } from './directory-feed.ts';
export { distributionHandlers } from './distribution-handlers.ts';
export { DistributionError, distributionErrors, type DistributionErrorCode } from './errors.ts';
export { KeysFeed } from './keys-feed.ts';
