/**
 * Making bundles on the operator's machine: what a cluster is made of, built from the Go modules of
 * the pinned versions or fetched from upstream, and kept in the user's cache directory.
 *
 * ```
 *  recipes ─▶ plan (what is there?) ─▶ Go toolchain ─▶ programs ─┐
 *                                      Debian packages ──────────┼─▶ binaries, images, charts ─▶ BlobStore
 *  upstream files ─▶ checksums + lock ─▶ programs, images ───────┘                               + manifest
 * ```
 *
 * What is made depends on the recipes alone: one toolchain, one set of flags, no times, no host names.
 */
export { buildBundle, type BuildOptions, type MadeBundle } from './build.ts';
export { bundleContext, runBundleBuild, runBundleFetch, runBundleList, runBundleVerify } from './commands.ts';
export { openStore, type BundleContext } from './context.ts';
export { BundleMakingError, bundleMakingErrors, type BundleMakingErrorCode } from './errors.ts';
export { fetchBundle, type FetchOptions } from './fetch.ts';
export { listBundles, readBundle, type ListedBundle } from './read.ts';
export { bundleBuildRequirements, checkRequirements, type BundleRequirement } from './requirements.ts';
export { readTar } from './tar-reader.ts';
export { verifyBundle, type Finding } from './verify.ts';
