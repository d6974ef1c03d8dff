/**
 * Domain: builds bundles on an operator's machine, from the Go modules of the pinned versions or from the files that upstream
 * projects publish.
 *
 * ```
 *  recipes ─▶ plan (what is built already?) ─▶ Go toolchain ─▶ programs ─┐
 *                                              Debian packages ──────────┼─▶ binaries, images, charts ─▶ BundleCache
 *  upstream files ─▶ checksums + lock file ─▶ programs, images ──────────┘
 * ```
 *
 * The bytes of a component depend on its recipe alone: one Go toolchain, one set of flags, no times, no host names.
 * `archive` reads and writes archives, `download` fetches files, `golang` runs the Go toolchain, `images` makes container
 * images, `recipes` says what a bundle consists of, `programs` has the Go sources of our own programs.
 */
export { readTar } from './archive/tar-reader.ts';
export { tarFileOf, writeTar } from './archive/tar-writer.ts';
export { buildBundle, type BuildOptions, type BuiltBundle } from './build-bundle.ts';
export { openBundleCache, type BuildContext } from './build-context.ts';
export { buildRequirements } from './build-requirements.ts';
export { FetchHttp } from './download/http-port.ts';
export { fetchBundle, type FetchOptions } from './fetch-bundle.ts';
export { findOutdated, type PinnedModule } from './outdated.ts';
