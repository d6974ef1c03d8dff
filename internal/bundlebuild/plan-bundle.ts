import { join } from 'node:path';
import { digestOf, GO_TOOLCHAIN, type BundleVersions } from '../bundle/index.ts';
import { recipeKey, type BuildCache, type BuiltComponent } from './build-cache.ts';
import type { BuildContext } from './build-context.ts';
import { readSourceFiles } from './pack-chart.ts';
import { bundleRecipe } from './recipes/bundle-recipe.ts';
import {
  NETWORK_TOOL_PACKAGES,
  type ComponentRecipe,
  type GoModuleRecipe,
  type LayerRecipe,
} from './recipes/recipe.ts';

/**
 * Part of each cache key. Increase the number of a kind when the build of such components changes in a way that their
 * recipes do not show.
 */
const GENERATIONS: Readonly<Record<ComponentRecipe['kind'], number>> = { binary: 1, image: 2, chart: 1 };

/** One component of the bundle that is to be built. */
export interface PlannedComponent {
  readonly recipe: ComponentRecipe;
  /** See `recipeKey`. */
  readonly key: string;
  /** The Go modules whose programs this component contains. */
  readonly modules: readonly GoModuleRecipe[];
  readonly needsNetworkTools: boolean;
  /** The result of an earlier build with the same key. */
  readonly cached: BuiltComponent | undefined;
}

/** Decides for each component of these versions whether it must be built. Changes nothing. */
export async function planBundle(
  context: BuildContext,
  versions: BundleVersions,
  cache: Pick<BuildCache, 'find'>,
): Promise<readonly PlannedComponent[]> {
  const { modules, components } = bundleRecipe(versions);
  const planned: PlannedComponent[] = [];
  for (const recipe of components) {
    const used = modules.filter((module) => programsOf(recipe).some((name) => name in module.programs));
    const needsNetworkTools = layersOf(recipe).some(({ kind }) => kind === 'network-tools');
    const key = recipeKey({
      generation: GENERATIONS[recipe.kind],
      recipe,
      modules: used,
      toolchain: GO_TOOLCHAIN.version,
      architecture: context.machine.architecture,
      packages: needsNetworkTools ? NETWORK_TOOL_PACKAGES : [],
      sources: await hashOwnSources(context, recipe, used),
    });
    planned.push({ recipe, key, modules: used, needsNetworkTools, cached: await cache.find(key) });
  }
  return planned;
}

/** The programs that go into a component. */
export function programsOf(recipe: ComponentRecipe): readonly string[] {
  if (recipe.kind === 'binary') return [recipe.program];
  return layersOf(recipe).flatMap((layer) => (layer.kind === 'program' ? [layer.program] : []));
}

function layersOf(recipe: ComponentRecipe): readonly LayerRecipe[] {
  return recipe.kind === 'image' ? recipe.layers : [];
}

/** Hashes of the files of this repository that go into the component. */
async function hashOwnSources(
  context: BuildContext,
  recipe: ComponentRecipe,
  modules: readonly GoModuleRecipe[],
): Promise<readonly string[]> {
  const { charts, programs } = context.sources;
  const own = modules.filter(({ from }) => from.kind === 'own');
  const wanted = programsOf(recipe).filter((name) => own.some((module) => name in module.programs));
  const directories =
    recipe.kind === 'chart' ? [join(charts, recipe.directory)] : wanted.map((name) => join(programs, name));
  const hashes: string[] = [];
  for (const directory of directories) {
    for (const { path, bytes } of await readSourceFiles(context.ports.files, directory)) {
      hashes.push(`${(await digestOf([bytes])).sha256}  ${path}`);
    }
  }
  return hashes;
}
