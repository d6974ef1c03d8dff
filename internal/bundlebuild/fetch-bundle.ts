import { basename, join } from 'node:path';
import { versionsFor, type BlobStore } from '../bundle/index.ts';
import { BuildCache, recipeKey, type BuiltComponent } from './build-cache.ts';
import { openBundleCache, type BuildContext } from './build-context.ts';
import { finishBundle, type BuiltBundle } from './build-bundle.ts';
import { ComponentBuilder } from './component-builder.ts';
import { downloadBlob, downloadText, showBytes, type OnBytes } from './download/download-blob.ts';
import { LockFile } from './download/lock-file.ts';
import { parseChecksum } from './download/parse-checksum.ts';
import { unpackPrograms } from './download/unpack-programs.ts';
import { upstreamFiles, type UpstreamFile } from './download/upstream-files.ts';
import { retagDockerArchive } from './images/retag-image.ts';
import { planBundle, programsOf, type PlannedComponent } from './plan-bundle.ts';

/** Options of `cluster bundle fetch`. */
export interface FetchOptions {
  readonly kubernetesVersion: string;
  /** The file with the hashes of earlier downloads; default: `bundle.lock.json` in the cache. */
  readonly lockFile?: string | undefined;
  /** URL of a server that has the files of each upstream host below the name of the host. */
  readonly mirror?: string | undefined;
}

/**
 * Makes the bundle of one Kubernetes version from the files that upstream projects publish. Each file is checked against the
 * hash that its project publishes and against the lock file. Components for which no project publishes a hash are built from
 * source.
 * @throws BundleBuildError, BundleError
 */
export async function fetchBundle(context: BuildContext, options: FetchOptions): Promise<BuiltBundle> {
  const versions = versionsFor(options.kubernetesVersion);
  const { store } = openBundleCache(context);
  const lockPath = options.lockFile ?? join(context.cache, 'bundle.lock.json');
  const lock = await LockFile.open(context.ports.files, lockPath);
  const fetched: Fetched = { programs: new Map(), origins: new Map(), images: new Map() };
  const files = upstreamFiles(versions, context.machine.architecture, options.mirror);
  for (const [index, file] of files.entries()) {
    const title = `Downloading ${basename(file.url)} (${index + 1} of ${files.length})`;
    await context.reporter.step('bundle-fetch', title, async (progress) => {
      const sha256 = await fetchLocked(context, { store, lock, file }, showBytes(progress));
      await unpack(context, store, { file, sha256 }, fetched);
    });
  }
  return buildRest(context, versions.kubernetes, fetched);
}

/** The content of the files that were downloaded. */
interface Fetched {
  /** Program → path in the store. */
  readonly programs: Map<string, string>;
  /** Program → the URL from which it was downloaded. */
  readonly origins: Map<string, string>;
  /** Images that are used as published, except for their reference. */
  readonly images: Map<string, BuiltComponent>;
}

/** Downloads the file into the store unless it is there. Returns its SHA-256. */
async function fetchLocked(
  context: BuildContext,
  from: { readonly store: BlobStore; readonly lock: LockFile; readonly file: UpstreamFile },
  onBytes: OnBytes,
): Promise<string> {
  const { url, checksumUrl } = from.file;
  const name = basename(url);
  const locked = from.lock.get(url);
  if (locked !== undefined && (await from.store.has(locked))) {
    await from.store.verify({ name, sha256: locked }, context.signal);
    return locked;
  }
  const sha256 = parseChecksum(await downloadText(context, checksumUrl), name, checksumUrl);
  from.lock.check(url, sha256);
  await downloadBlob(context, from.store, { url, name, sha256 }, onBytes);
  await from.lock.add(url, sha256);
  return sha256;
}

async function unpack(
  context: BuildContext,
  store: BlobStore,
  { file, sha256 }: { readonly file: UpstreamFile; readonly sha256: string },
  into: Fetched,
): Promise<void> {
  const { content, url } = file;
  if (content.kind === 'image') {
    const archive = store.read(sha256, { signal: context.signal });
    const image = retagDockerArchive(archive, content.reference);
    into.images.set(content.component, { ...(await store.put(image, context)), source: url });
    return;
  }
  const programs =
    content.kind === 'program'
      ? [[content.program, await store.path(sha256)] as const]
      : await unpackPrograms(context, {
          url,
          members: content.members,
          packed: store.read(sha256, { signal: context.signal }),
          keep: async (_program, bytes) => store.path((await store.put(bytes, context)).sha256),
        });
  for (const [program, path] of programs) {
    into.programs.set(program, path);
    into.origins.set(program, url);
  }
}

/** Builds the components that are not complete yet and writes the manifest. */
async function buildRest(
  context: BuildContext,
  kubernetesVersion: string,
  fetched: Fetched,
): Promise<BuiltBundle> {
  const { store } = openBundleCache(context);
  const cache = new BuildCache(context, store);
  const planned = (await planBundle(context, versionsFor(kubernetesVersion), cache)).map((component) =>
    isFetched(component, fetched) ? planFetched(component, fetched) : component,
  );
  const components = new Map(fetched.images);
  const todo: PlannedComponent[] = [];
  for (const component of planned) {
    const { name } = component.recipe;
    if (components.has(name)) continue;
    const cached = component.cached ?? (await cache.find(component.key));
    if (cached === undefined) todo.push(component);
    else components.set(name, cached);
  }
  if (todo.length > 0) {
    const sources = new Map(
      todo
        .filter((component) => isFetched(component, fetched))
        .map(({ recipe }) => [recipe.name, originsOf(recipe, fetched)] as const),
    );
    const builder = new ComponentBuilder(context, {
      store,
      cache,
      todo,
      programs: fetched.programs,
      sources,
    });
    for (const [name, component] of await builder.run()) components.set(name, component);
  }
  return finishBundle(context, { kubernetesVersion, planned, components, todo });
}

/** Whether all programs of a component were downloaded. */
function isFetched({ recipe }: PlannedComponent, fetched: Fetched): boolean {
  const programs = programsOf(recipe);
  return programs.length > 0 && programs.every((name) => fetched.programs.has(name));
}

function originsOf(recipe: PlannedComponent['recipe'], { origins }: Fetched): string {
  return [...new Set(programsOf(recipe).map((name) => origins.get(name) ?? ''))].join(', ');
}

/**
 * The bytes of an upstream file differ from those of a build from source, so the key of the component
 * differs too.
 */
function planFetched(planned: PlannedComponent, fetched: Fetched): PlannedComponent {
  const programs = programsOf(planned.recipe).map((name) => fetched.programs.get(name));
  return {
    ...planned,
    modules: [],
    key: recipeKey({ fetched: planned.recipe, programs }),
    cached: undefined,
  };
}
