import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import {
  type Architecture,
  type BundleManifest,
  bundleName,
  type Component,
  versionsFor,
} from '../bundle/index.ts';
import { openBundleCache, type BuildContext } from './build-context.ts';
import { BuildCache, type BuiltComponent } from './build-cache.ts';
import { ComponentBuilder, type ComponentBuilderOptions } from './component-builder.ts';
import { removeDownloads } from './download/download-releases.ts';
import type { ReleaseSource } from './download/pinned-releases.ts';
import { planBundle, type PlannedComponent } from './plan-bundle.ts';
import { useReleases } from './use-releases.ts';

/** Options of `cluster bundle build`. */
export interface BuildOptions {
  readonly kubernetesVersion: string;
  /** Builds every component again, to prove that two builds give the same bytes. */
  readonly rebuild?: boolean;
  /**
   * Uses the programs that upstream projects have released. Only releases whose hash is pinned and whose server answers
   * are used.
   */
  readonly releases?: ReleaseSource | undefined;
}

/** The result of a build. */
export interface BuiltBundle {
  readonly manifest: BundleManifest;
  readonly manifestPath: string;
  /** Names of the components that this run has built. The other components were in the cache. */
  readonly built: readonly string[];
}

/**
 * Builds the bundle of one Kubernetes version from the Go modules of its programs. With `releases`, uses released
 * programs where they exist, and Go modules for the other programs. A run that was interrupted is resumed: each
 * component is in the cache as soon as it is built.
 * @throws BundleBuildError, BundleError, ExecError
 */
export async function buildBundle(context: BuildContext, options: BuildOptions): Promise<BuiltBundle> {
  const versions = versionsFor(options.kubernetesVersion);
  const cache = new BuildCache(context, openBundleCache(context).store);
  const nothing = { find: () => Promise.resolve(undefined) };
  const found = options.rebuild === true ? nothing : cache;
  const planned = await planBundle(context, versions, found);
  const kubernetesVersion = versions.kubernetes;
  if (options.releases === undefined) {
    return buildPlanned(context, cache, { kubernetesVersion, planned });
  }
  const directory = join(context.cache, 'build', randomUUID());
  try {
    const from = options.releases;
    const released = await useReleases(context, { versions, planned, cache: found, from, directory });
    const bundle = await buildPlanned(context, cache, { kubernetesVersion, ...released });
    // Not earlier: if the build fails, the next run does not have to download the files again.
    await removeDownloads(context, released.downloads);
    return bundle;
  } finally {
    await context.ports.files.remove(directory);
  }
}

/** Builds the components of a plan that are not in the cache, and writes the manifest. */
async function buildPlanned(
  context: BuildContext,
  cache: BuildCache,
  plan: Partial<Pick<ComponentBuilderOptions, 'programs' | 'sources'>> & {
    readonly kubernetesVersion: string;
    readonly planned: readonly PlannedComponent[];
  },
): Promise<BuiltBundle> {
  const { kubernetesVersion, planned, ...released } = plan;
  const { store } = openBundleCache(context);
  const components = new Map<string, BuiltComponent>();
  for (const { recipe, cached } of planned) if (cached !== undefined) components.set(recipe.name, cached);
  const todo = planned.filter(({ cached }) => cached === undefined);
  if (todo.length > 0) {
    const builder = new ComponentBuilder(context, { ...released, store, cache, todo });
    for (const [name, component] of await builder.run()) components.set(name, component);
  }
  return finishBundle(context, { kubernetesVersion, planned, components, todo });
}

/** Writes the manifest to where `init`, `mini` and the other commands look for it. */
export async function finishBundle(
  context: BuildContext,
  result: {
    readonly kubernetesVersion: string;
    readonly planned: readonly PlannedComponent[];
    /** By component name; one for each planned component. */
    readonly components: ReadonlyMap<string, BuiltComponent>;
    readonly todo: readonly PlannedComponent[];
  },
): Promise<BuiltBundle> {
  const { kubernetesVersion, planned, components, todo } = result;
  const manifest = createManifest(kubernetesVersion, context.machine.architecture, planned, components);
  const manifestPath = await openBundleCache(context).write(manifest);
  return { manifest, manifestPath, built: todo.map(({ recipe }) => recipe.name) };
}

/** The manifest of these components, sorted by name. Pure. */
function createManifest(
  kubernetesVersion: string,
  architecture: Architecture,
  planned: readonly Pick<PlannedComponent, 'recipe'>[],
  built: ReadonlyMap<string, BuiltComponent>,
): BundleManifest {
  const components = planned.map(({ recipe }): Component => {
    const component = built.get(recipe.name);
    if (component === undefined) throw new TypeError(`writing the manifest: ${recipe.name} was not built`);
    const { name, version, kind, scope } = recipe;
    const references = recipe.kind === 'image' ? { references: [recipe.reference] as const } : {};
    return { name, version, kind, ...component, ...references, scope };
  });
  components.sort((a, b) => (a.name < b.name ? -1 : 1));
  const name = bundleName(kubernetesVersion, architecture);
  return { version: 1, name, kubernetesVersion, architecture, components };
}
