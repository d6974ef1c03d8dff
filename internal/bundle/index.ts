/**
 * Domain layer: bundles. A bundle has all components of a cluster: a manifest (name, version, kind, hash and scope of each component) and a
 * content-addressed store of their files. `internal/bundlebuild` builds bundles.
 *
 * ```
 *   component-versions.ts ──build or fetch──▶ BlobStore of the operator's machine + manifest
 *                                                   │ append / commit over an authenticated session
 *                                                   ▼
 *                                             BlobStore of a node ──▶ the other nodes
 * ```
 *
 * Every store checks the hash of a file when it receives it and again before it is used; the sender is not trusted.
 */
export { BundleCache, type CachedBundle } from './bundle-cache.ts';
export { BlobStore, type BlobReference } from './blob-store.ts';
export {
  ARCHITECTURES,
  bundleName,
  type Architecture,
  type BundleManifest,
  type Component,
  type ComponentScope,
} from './component.ts';
export { digestOf, type Digest } from './digest.ts';
export { BundleError } from './errors.ts';
export { encodeManifest, MAX_MANIFEST_BYTES, parseManifest } from './manifest.ts';
export { verifyComponents } from './verify-components.ts';
export {
  DEFAULT_KUBERNETES_VERSION,
  GO_TOOLCHAIN,
  imageReferences,
  KUBERNETES_VERSIONS,
  supportOf,
  HELD_RELEASES,
  MINORS_OF_KUBERNETES,
  versionsFor,
  type BundleVersions,
} from './component-versions.ts';
