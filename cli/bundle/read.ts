import { join } from 'node:path';
import { MAX_MANIFEST_BYTES, parseManifest, type BundleManifest } from '../../internal/bundle/index.ts';
import { manifestPath, openStore, type BundleContext } from './context.ts';
import { BundleMakingError } from './errors.ts';

type ReadContext = Pick<BundleContext, 'ports' | 'cache' | 'machine' | 'signal'>;

/** The manifest of a bundle that was made here. @throws BundleMakingError `bundle-not-found` */
export async function readBundle(context: ReadContext, kubernetesVersion: string): Promise<BundleManifest> {
  const path = manifestPath(context, kubernetesVersion);
  const bytes = await context.ports.files.read(path, MAX_MANIFEST_BYTES);
  if (bytes === undefined) {
    const fix = `Run \`cluster bundle build --kubernetes-version ${kubernetesVersion}\`.`;
    throw new BundleMakingError('bundle-not-found', `bundle of ${kubernetesVersion} not found: no ${path}`, {
      fix,
    });
  }
  return parseManifest(bytes);
}

/** Every bundle in the cache, by name. */
export async function listBundles(context: ReadContext): Promise<readonly ListedBundle[]> {
  const folder = join(context.cache, 'bundles');
  const names = (await context.ports.files.list(folder)).filter((name) => /^kubernetes-.*\.json$/.test(name));
  const bundles: ListedBundle[] = [];
  for (const name of names) {
    const bytes = await context.ports.files.read(join(folder, name), MAX_MANIFEST_BYTES);
    if (bytes === undefined) continue;
    const manifest = parseManifest(bytes);
    const missing = await openStore(context).missing(manifest);
    bundles.push({ manifest, missing: missing.map((each) => each.name) });
  }
  return bundles;
}

export interface ListedBundle {
  readonly manifest: BundleManifest;
  /** Names of the components whose files are not in the store. */
  readonly missing: readonly string[];
}
