import { createGunzip } from 'node:zlib';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { versionsFor, type BlobStore } from '../../internal/bundle/index.ts';
import { formatBytes } from '../host/index.ts';
import { BuildRun } from './build-run.ts';
import { writeManifest, type MadeBundle } from './build.ts';
import { parseChecksum } from './checksums.ts';
import { openStore, type BundleContext } from './context.ts';
import { downloadBlob, downloadText } from './download.ts';
import { BundleMakingError } from './errors.ts';
import { LockFile } from './lock.ts';
import { manifestOf } from './manifest-of.ts';
import { planBundle, programsOf, type PlannedComponent } from './plan.ts';
import { recipeKey, Records, type Outcome } from './records.ts';
import { retagDockerArchive } from './retag.ts';
import { readTar } from './tar-reader.ts';
import { upstreamFiles, type UpstreamFile } from './upstream.ts';

export interface FetchOptions {
  readonly kubernetesVersion: string;
  /** Where hashes are locked; `bundle.lock.json` in the cache unless said. */
  readonly lockFile?: string;
  /** A server with upstream's layout below the names of upstream's hosts. */
  readonly mirror?: string;
}

/**
 * Makes the bundle of one Kubernetes version from what upstream projects publish, each file checked against the hash that
 * its project publishes beside it and against the lock file. What no project publishes with a hash is built from source.
 * @throws BundleMakingError, BundleError
 */
export async function fetchBundle(context: BundleContext, options: FetchOptions): Promise<MadeBundle> {
  const versions = versionsFor(options.kubernetesVersion);
  const store = openStore(context);
  const records = new Records(context, store);
  const lockPath = options.lockFile ?? join(context.cache, 'bundle.lock.json');
  const lock = await LockFile.open(context.ports.files, lockPath);
  const fetched: Fetched = { programs: new Map(), origins: new Map(), outcomes: new Map() };
  const files = upstreamFiles(versions, context.machine.architecture, options.mirror);
  for (const [index, file] of files.entries()) {
    const title = `Fetching ${basename(file.url)} (${index + 1} of ${files.length})`;
    await context.host.step('bundle.fetch', title, async (progress) => {
      const sha256 = await fetchLocked(context, { store, lock, file }, (value) => {
        progress.update(formatBytes(value));
      });
      await unpack(context, store, { file, sha256 }, fetched);
    });
  }
  return finish(context, { kubernetesVersion: versions.kubernetes, store, records }, fetched);
}

/** What the files brought. */
interface Fetched {
  /** Program → path in the store. */
  readonly programs: Map<string, string>;
  /** Program or image → the address it came from. */
  readonly origins: Map<string, string>;
  /** Images that are used as they came, but for their reference. */
  readonly outcomes: Map<string, Outcome>;
}

/** The file in the store; answers its hash. */
async function fetchLocked(
  context: BundleContext,
  from: { readonly store: BlobStore; readonly lock: LockFile; readonly file: UpstreamFile },
  onBytes: (value: number) => void,
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
  context: BundleContext,
  store: BlobStore,
  from: { readonly file: UpstreamFile; readonly sha256: string },
  into: Fetched,
): Promise<void> {
  const { content, url } = from.file;
  switch (content.kind) {
    case 'program':
      into.programs.set(content.program, await store.path(from.sha256));
      into.origins.set(content.program, url);
      return;
    case 'archive':
      for (const [program, path] of await unpackPrograms(context, store, {
        ...from,
        members: content.members,
      })) {
        into.programs.set(program, path);
        into.origins.set(program, url);
      }
      return;
    case 'image': {
      const archive = store.read(from.sha256, { signal: context.signal });
      const image = retagDockerArchive(archive, content.reference);
      into.outcomes.set(content.component, { ...(await store.put(image, context)), source: url });
    }
  }
}

async function unpackPrograms(
  context: BundleContext,
  store: BlobStore,
  from: {
    readonly file: UpstreamFile;
    readonly sha256: string;
    readonly members: Readonly<Record<string, string>>;
  },
): Promise<ReadonlyMap<string, string>> {
  const wanted = new Map(Object.entries(from.members).map(([program, path]) => [normalized(path), program]));
  const found = new Map<string, string>();
  try {
    const packed = store.read(from.sha256, { signal: context.signal });
    // pipeline() ends every part when one of them fails; a bare pipe would leave the file open.
    await pipeline(packed, createGunzip(), async (unpacked: AsyncIterable<Uint8Array>) => {
      for await (const member of readTar(unpacked)) {
        const program = wanted.get(normalized(member.path));
        if (program === undefined || member.type !== 'file') continue;
        const { sha256 } = await store.put(member.content, context);
        found.set(program, await store.path(sha256));
      }
    });
  } catch (cause) {
    context.signal.throwIfAborted();
    throw new BundleMakingError('bundlebuild-archive', `unpacking ${from.file.url}`, { cause });
  }
  const missing = [...wanted.values()].filter((program) => !found.has(program));
  if (missing.length === 0) return found;
  throw new BundleMakingError(
    'bundlebuild-archive',
    `unpacking ${from.file.url}: it lacks ${missing.join(', ')}`,
  );
}

function normalized(path: string): string {
  return path.replace(/^\.\//, '');
}

/** Builds what is left and writes the manifest. */
async function finish(
  context: BundleContext,
  at: { readonly kubernetesVersion: string; readonly store: BlobStore; readonly records: Records },
  fetched: Fetched,
): Promise<MadeBundle> {
  const own = await planBundle(context, versionsFor(at.kubernetesVersion), at.records);
  const planned = own.map((each) => (isFetched(each, fetched) ? fetchedPlan(each, fetched) : each));
  const outcomes = new Map(fetched.outcomes);
  const todo: PlannedComponent[] = [];
  for (const each of planned) {
    const { name } = each.recipe;
    if (outcomes.has(name)) continue;
    const made = isFetched(each, fetched) ? await at.records.find(each.key) : each.made;
    if (made === undefined) todo.push(each);
    else outcomes.set(name, made);
  }
  if (todo.length > 0) {
    const sources = new Map(
      planned.map((each) => [each.recipe.name, originsOf(each, fetched).join(', ')] as const),
    );
    for (const [name, source] of sources) if (source === '') sources.delete(name);
    const run = new BuildRun(context, { ...at, todo, programs: fetched.programs, sources });
    for (const [name, outcome] of await run.run()) outcomes.set(name, outcome);
  }
  const manifest = manifestOf(at.kubernetesVersion, context.machine.architecture, planned, outcomes);
  return { ...(await writeManifest(context, manifest)), made: todo.map((each) => each.recipe.name) };
}

/** Whether all programs of a component came from upstream. */
function isFetched(planned: PlannedComponent, fetched: Fetched): boolean {
  const programs = programsOf(planned.recipe);
  return programs.length > 0 && programs.every((name) => fetched.programs.has(name));
}

function originsOf(planned: PlannedComponent, fetched: Fetched): readonly string[] {
  return isFetched(planned, fetched)
    ? [...new Set(programsOf(planned.recipe).map((name) => fetched.origins.get(name) ?? ''))]
    : [];
}

/** Another key than the build's: the same component of other bytes. */
function fetchedPlan(planned: PlannedComponent, fetched: Fetched): PlannedComponent {
  const programs = programsOf(planned.recipe).map((name) => fetched.programs.get(name));
  return { ...planned, modules: [], key: recipeKey({ fetched: planned.recipe, programs }), made: undefined };
}
