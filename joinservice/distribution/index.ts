/**
 * What control-plane nodes hand on to the other members: the bytes of the bundle by their hash, and where control
 * planes are. Behind the curator's door; holds nothing that the disk and etcd do not.
 *
 * ```
 * etcd ─▶ curator's NodeFeed ─▶ DirectoryFeed (one for all) ─▶ WatchDirectory
 * store, seeds (read only) ────────────────────────────────▶ FetchBlob
 * ```
 */
export { DirectoryFeed, type Directory } from './directory-feed.ts';
export { distributionHandlers } from './distribution.ts';
export { DistributionError, distributionErrors, type DistributionErrorCode } from './errors.ts';
