import {
  type Architecture,
  type BundleManifest,
  bundleName,
  type Component,
  versionsFor,
} from '../bundle/index.ts';
import { openBundleCache, type BuildContext } from './build-context.ts';
import { BuildCache, type BuiltComponent } from './build-cache.ts';
import { ComponentBuilder } from './component-builder.ts';
import { planBundle, type PlannedComponent } from './plan-bundle.ts';

/** Options of `cluster bundle build`. */
export interface BuildOptions {
  readonly kubernetesVersion: string;
  /** Builds every component again, to prove that two builds give the same bytes. */
  readonly rebuild?: boolean;
}

/** The result of a build. */
export interface BuiltBundle {
  readonly manifest: BundleManifest;
  readonly manifestPath: string;
  /** Names of the components that this run has built. The other components were in the cache. */
  readonly built: readonly string[];
}

/**
 * Builds the bundle of one Kubernetes version from the Go modules of its programs. A run that was interrupted is resumed: each
 * component is in the cache as soon as it is built.
 * @throws BundleBuildError, BundleError, ExecError
 */
export async function buildBundle(context: BuildContext, options: BuildOptions): Promise<BuiltBundle> {
  const versions = versionsFor(options.kubernetesVersion);
  const bundles = openBundleCache(context);
  const cache = new BuildCache(context, bundles.store);
  const nothing = { find: () => Promise.resolve(undefined) };
  const planned = await planBundle(context, versions, options.rebuild === true ? nothing : cache);
  const components = new Map<string, BuiltComponent>();
  for (const { recipe, cached } of planned) if (cached !== undefined) components.set(recipe.name, cached);
  const todo = planned.filter(({ cached }) => cached === undefined);
  if (todo.length > 0) {
    const builder = new ComponentBuilder(context, { store: bundles.store, cache, todo });
    for (const [name, component] of await builder.run()) components.set(name, component);
  }
  return finishBundle(context, { kubernetesVersion: versions.kubernetes, planned, components, todo });
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
