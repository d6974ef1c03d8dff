/**
 * Domain layer: builds bundles on an operator's machine, from the Go modules of the pinned versions or from the files that upstream
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
 * images, `recipes` says what a bundle consists of, `programs` has the Go sources of our own programs, `sbom` writes bills of
 * materials.
 */
export { imageFiles } from './archive/image-files.ts';
export { readTar } from './archive/tar-reader.ts';
export { tarFileOf, writeTar, type TarEntry } from './archive/tar-writer.ts';
export { BuildCache, recipeKey, type BuiltComponent } from './build-cache.ts';
export { buildBundle, type BuildOptions, type BuiltBundle } from './build-bundle.ts';
export { openBundleCache, type BuildContext, type BuildReporter } from './build-context.ts';
export { buildRequirements } from './build-requirements.ts';
export { FetchHttp } from './download/http-port.ts';
export { fetchBundle, type FetchOptions } from './fetch-bundle.ts';
export { GoBuilder } from './golang/go-builder.ts';
export { ensureToolchain } from './golang/go-toolchain.ts';
export { unpackPackages } from './images/debian-packages.ts';
export { accountsLayer, writeImageArchive } from './images/image-archive.ts';
export { kubernetesRecipe } from './recipes/go-recipes.ts';
export type { GoModuleRecipe } from './recipes/recipe.ts';
export { findOutdated, type PinnedModule } from './outdated.ts';
export { bundleBom } from './sbom/bundle-bom.ts';
export { parseGoBuildInfo } from './sbom/go-build-info.ts';
export { createBom, packageComponent } from './sbom/cyclone-dx.ts';
