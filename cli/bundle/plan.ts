import { join } from 'node:path';
import { digestOf, GO_TOOLCHAIN, type BundleVersions } from '../../internal/bundle/index.ts';
import { readSources } from './chart.ts';
import type { BundleContext } from './context.ts';
import { recipeKey, type Outcome, type Records } from './records.ts';
import { NETBASE_PACKAGES, type ComponentRecipe, type GoModuleRecipe, type LayerRecipe } from './recipe.ts';
import { bundleRecipe } from './recipes.ts';

/** Raised when the way components are made changes in a manner that their recipes don't show. */
const GENERATIONS: Readonly<Record<ComponentRecipe['kind'], number>> = { binary: 1, image: 2, chart: 1 };

/** One component, what decides about its bytes, and what came of it before. */
export interface PlannedComponent {
  readonly recipe: ComponentRecipe;
  readonly key: string;
  readonly modules: readonly GoModuleRecipe[];
  readonly needsNetbase: boolean;
  readonly made: Outcome | undefined;
}

/** What is there and what has to be made for these versions. Reads only. */
export async function planBundle(
  context: BundleContext,
  versions: BundleVersions,
  records: Pick<Records, 'find'>,
): Promise<readonly PlannedComponent[]> {
  const { modules, components } = bundleRecipe(versions);
  const planned: PlannedComponent[] = [];
  for (const recipe of components) {
    const used = modules.filter((each) => programsOf(recipe).some((name) => name in each.programs));
    const needsNetbase = layersOf(recipe).some((each) => each.kind === 'netbase');
    const key = recipeKey({
      generation: GENERATIONS[recipe.kind],
      recipe,
      modules: used,
      toolchain: GO_TOOLCHAIN.version,
      architecture: context.machine.architecture,
      packages: needsNetbase ? NETBASE_PACKAGES : [],
      sources: await ownSources(context, recipe, used),
    });
    planned.push({ recipe, key, modules: used, needsNetbase, made: await records.find(key) });
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

/** Hashes of the sources that lie in this repository, as far as the component is made of them. */
async function ownSources(
  context: BundleContext,
  recipe: ComponentRecipe,
  modules: readonly GoModuleRecipe[],
): Promise<readonly string[]> {
  const { charts, programs } = context.resources;
  const own = modules.filter((each) => each.from.kind === 'own');
  const wanted = programsOf(recipe).filter((name) => own.some((each) => name in each.programs));
  const folders =
    recipe.kind === 'chart' ? [join(charts, recipe.folder)] : wanted.map((name) => join(programs, name));
  const hashes: string[] = [];
  for (const folder of folders) {
    for (const { path, bytes } of await readSources(context.ports.files, folder)) {
      hashes.push(`${(await digestOf([bytes])).sha256}  ${path}`);
    }
  }
  return hashes;
}
