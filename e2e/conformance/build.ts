import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { digestOf, GO_TOOLCHAIN, type BlobStore } from '../../internal/bundle/index.ts';
import {
  BuildCache,
  ensureToolchain,
  GoBuilder,
  kubernetesRecipe,
  openBundleCache,
  recipeKey,
  type BuildContext,
  type BuiltComponent,
  type GoModuleRecipe,
} from '../../internal/bundlebuild/index.ts';
import { readRequired, writeTestImages } from './image-archive.ts';

const TESTS = 'k8s.io/kubernetes/test/e2e';
const IMAGES = 'k8s.io/kubernetes/test/images';
const SAMPLE_APISERVER = 'k8s.io/sample-apiserver';
/** The release of sample-apiserver that is in upstream's test image (image version 1.29.2). */
const SAMPLE_APISERVER_VERSION = 'v0.29.2';
/** A part of the cache key. Increase it when a change of this code makes the same recipes give other bytes. */
const GENERATION = 2;

/** The files that a run of the conformance tests needs. */
export interface ConformanceBuild {
  /** Paths of executable files. */
  readonly programs: { readonly tests: string; readonly ginkgo: string; readonly kubectl: string };
  /** Hashes of image archives in the blob store. */
  readonly images: readonly string[];
}

/**
 * Builds the tests of a Kubernetes release, their runner and their images from Go modules and Debian packages, unless the cache
 * has them. Puts the programs into `directory`.
 */
export async function buildConformance(
  context: BuildContext,
  options: { readonly kubernetesVersion: string; readonly directory: string },
): Promise<ConformanceBuild> {
  const { kubernetesVersion, directory } = options;
  const { store } = openBundleCache(context);
  const manifest = await openBundleCache(context).read(kubernetesVersion, context.machine.architecture);
  const component = (wanted: string): string => {
    const found = manifest.components.find(({ name }) => name === wanted);
    if (found === undefined) throw new TypeError(`the bundle has no ${wanted}`);
    return found.sha256;
  };
  const built = await findOrBuild(context, store, kubernetesVersion);
  await mkdir(directory, { recursive: true });
  const place = async (name: string, sha256: string): Promise<string> => {
    const path = join(directory, name);
    await copyFile(await store.path(sha256), path);
    await chmod(path, 0o755);
    return path;
  };
  return {
    programs: {
      tests: await place('e2e.test', built.tests.sha256),
      ginkgo: await place('ginkgo', built.ginkgo.sha256),
      kubectl: await place('kubectl', component('kubectl')),
    },
    images: [built.images.sha256, component('etcd-image')],
  };
}

/** The Go module of the tests and of their own images. */
export function testModule(kubernetesVersion: string): GoModuleRecipe {
  return {
    ...kubernetesRecipe({ kubernetes: kubernetesVersion }),
    id: 'conformance',
    programs: {
      ginkgo: 'github.com/onsi/ginkgo/v2/ginkgo',
      agnhost: `${IMAGES}/agnhost`,
      nonewprivs: `${IMAGES}/nonewprivs`,
      'regression-issue-74839': `${IMAGES}/regression-issue-74839`,
    },
    tests: { 'e2e.test': TESTS },
  };
}

const SAMPLE: GoModuleRecipe = {
  id: 'sample-apiserver',
  from: { kind: 'modules', modules: [`${SAMPLE_APISERVER}@${SAMPLE_APISERVER_VERSION}`] },
  programs: { 'sample-apiserver': SAMPLE_APISERVER },
  tags: [],
  ldflags: [],
  cgo: false,
};

/** The files that a build makes. */
interface BuiltFiles {
  readonly tests: BuiltComponent;
  readonly ginkgo: BuiltComponent;
  readonly images: BuiltComponent;
}

async function findOrBuild(
  context: BuildContext,
  store: BlobStore,
  kubernetesVersion: string,
): Promise<BuiltFiles> {
  const cache = new BuildCache(context, store);
  const keys = await cacheKeys(kubernetesVersion, {
    architecture: context.machine.architecture,
    imageRecipes: await readRequired(context, join(import.meta.dirname, 'image-recipes.ts')),
  });
  const tests = await cache.find(keys.tests);
  const ginkgo = await cache.find(keys.ginkgo);
  const images = await cache.find(keys.images);
  if (tests !== undefined && ginkgo !== undefined && images !== undefined) return { tests, ginkgo, images };
  const directory = join(context.cache, 'build', randomUUID());
  const source = `k8s.io/kubernetes@${kubernetesVersion} (go${GO_TOOLCHAIN.version})`;
  const save = async (key: string, content: AsyncIterable<Uint8Array>): Promise<BuiltComponent> => {
    const component = { ...(await store.put(content, { signal: context.signal })), source };
    await cache.save(key, component);
    return component;
  };
  try {
    const programs = await compile(context, kubernetesVersion, directory);
    const file = (name: string) =>
      context.ports.streams.readChunks(programs.get(name) ?? '', { signal: context.signal });
    return {
      tests: await save(keys.tests, file('e2e.test')),
      ginkgo: await save(keys.ginkgo, file('ginkgo')),
      images: await context.reporter.step('conformance-images', 'Making the images of the tests', () =>
        save(keys.images, writeTestImages(context, { kubernetesVersion, programs, directory })),
      ),
    };
  } finally {
    await context.ports.files.remove(directory);
  }
}

/** The keys of the three files in the build cache: hashes of everything that their bytes depend on. */
export async function cacheKeys(
  kubernetesVersion: string,
  from: { readonly architecture: string; readonly imageRecipes: Uint8Array },
): Promise<Readonly<Record<keyof BuiltFiles, string>>> {
  const inputs = {
    generation: GENERATION,
    module: testModule(kubernetesVersion),
    toolchain: GO_TOOLCHAIN.version,
    architecture: from.architecture,
  };
  const { sha256: recipes } = await digestOf([from.imageRecipes]);
  return {
    tests: recipeKey({ name: 'e2e.test', ...inputs }),
    ginkgo: recipeKey({ name: 'ginkgo', ...inputs }),
    images: recipeKey({ name: 'conformance-images', ...inputs, sample: SAMPLE, recipes }),
  };
}

/** Returns the paths of all programs by name. */
async function compile(
  context: BuildContext,
  kubernetesVersion: string,
  directory: string,
): Promise<ReadonlyMap<string, string>> {
  const { reporter } = context;
  const goroot = await reporter.step('bundle-toolchain', 'Preparing the Go toolchain', (progress) =>
    ensureToolchain(context, progress),
  );
  const builder = new GoBuilder(context, { goroot, directory });
  const programs = new Map<string, string>();
  for (const recipe of [testModule(kubernetesVersion), SAMPLE])
    await reporter.step(`bundle-build-${recipe.id}`, `Building ${recipe.id}`, async (progress) => {
      const prepared = await builder.prepare(recipe);
      let compiled = 0;
      const built = await builder.build(prepared, (line) =>
        progress.update(`${++compiled} packages, ${line}`),
      );
      for (const [name, path] of built) programs.set(name, path);
    });
  return programs;
}
