import {
  bundleName,
  type Architecture,
  type BundleManifest,
  type Component,
} from '../../internal/bundle/index.ts';
import type { PlannedComponent } from './plan.ts';
import type { Outcome } from './records.ts';

/** The manifest of these outcomes, sorted by name. Pure. */
export function manifestOf(
  kubernetesVersion: string,
  architecture: Architecture,
  planned: readonly Pick<PlannedComponent, 'recipe'>[],
  outcomes: ReadonlyMap<string, Outcome>,
): BundleManifest {
  const components = planned.map(({ recipe }): Component => {
    const outcome = outcomes.get(recipe.name);
    if (outcome === undefined) throw new TypeError(`writing the manifest: ${recipe.name} was not made`);
    const { name, version, kind, scope } = recipe;
    const references = recipe.kind === 'image' ? { references: [recipe.reference] as const } : {};
    return { name, version, kind, ...outcome, ...references, scope };
  });
  components.sort((a, b) => (a.name < b.name ? -1 : 1));
  const name = bundleName(kubernetesVersion, architecture);
  return { version: 1, name, kubernetesVersion, architecture, components };
}
