import { join } from 'node:path';
import { encodeManifest, versionsFor, type BundleManifest } from '../../internal/bundle/index.ts';
import { BuildRun } from './build-run.ts';
import { manifestPath, openStore, type BundleContext } from './context.ts';
import { manifestOf } from './manifest-of.ts';
import { planBundle } from './plan.ts';
import { Records, type Outcome } from './records.ts';

export interface BuildOptions {
  readonly kubernetesVersion: string;
  /** Makes everything anew, also what is there: for proving that two builds are the same. */
  readonly rebuild?: boolean;
}

export interface MadeBundle {
  readonly manifest: BundleManifest;
  readonly manifestPath: string;
  /** Names of the components that this run made; the others were there. */
  readonly made: readonly string[];
}

/**
 * Makes the bundle of one Kubernetes version from the Go modules of its programs. Goes on where an
 * earlier run stopped: each component is remembered as soon as it is stored.
 * @throws BundleMakingError, BundleError, ExecError
 */
export async function buildBundle(context: BundleContext, options: BuildOptions): Promise<MadeBundle> {
  const versions = versionsFor(options.kubernetesVersion);
  const store = openStore(context);
  const records = new Records(context, store);
  const nothing = { find: () => Promise.resolve(undefined) };
  const planned = await planBundle(context, versions, options.rebuild === true ? nothing : records);
  const outcomes = new Map<string, Outcome>();
  for (const { recipe, made } of planned) if (made !== undefined) outcomes.set(recipe.name, made);
  const todo = planned.filter((each) => each.made === undefined);
  if (todo.length > 0) {
    const run = new BuildRun(context, { store, records, todo });
    for (const [name, outcome] of await run.run()) outcomes.set(name, outcome);
  }
  const manifest = manifestOf(versions.kubernetes, context.machine.architecture, planned, outcomes);
  return { ...(await writeManifest(context, manifest)), made: todo.map((each) => each.recipe.name) };
}

/** Puts the manifest where `mini`, `init` and the other commands look for it. */
export async function writeManifest(
  context: BundleContext,
  manifest: BundleManifest,
): Promise<Omit<MadeBundle, 'made'>> {
  const path = manifestPath(context, manifest.kubernetesVersion);
  await context.ports.files.makeDirectory(join(context.cache, 'bundles'));
  await context.ports.files.writeAtomic(path, encodeManifest(manifest), { mode: 0o644 });
  return { manifest, manifestPath: path };
}
