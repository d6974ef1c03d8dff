import { bundleName, type Architecture, type BundleManifest, type Component } from '../bundle/index.ts';
import type { BuiltComponent } from './build-cache.ts';
import type { PlannedComponent } from './plan-bundle.ts';

/** The manifest of these components, sorted by name. Pure. */
export function createManifest(
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
