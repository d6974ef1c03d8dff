import { join } from 'node:path';
import { GO_TOOLCHAIN, type BlobStore } from '../../internal/bundle/index.ts';
import { packChart, readSources } from './chart.ts';
import type { BundleContext } from './context.ts';
import { accountsLayer, CAP_NET_BIND_SERVICE, writeImageArchive } from './image.ts';
import type { Netbase } from './netbase.ts';
import type { PlannedComponent } from './plan.ts';
import type { ChartRecipe, GoModuleRecipe, ImageRecipe, LayerRecipe } from './recipe.ts';
import type { Outcome } from './records.ts';
import type { TarEntry } from './tar-writer.ts';

const MAX_SOURCE_CHARACTERS = 1000;

/** What components are put together from. */
export interface Parts {
  /** Program name → path of the file that was built or fetched. */
  readonly programs: ReadonlyMap<string, string>;
  readonly netbase: Netbase | undefined;
  /** What the C compiler and libraries of this machine are: they are part of what is built with cgo. */
  readonly cToolchain: CToolchain | undefined;
}

/** Versions, for the manifest. */
export interface CToolchain {
  readonly gcc: string;
  readonly libc: string;
  readonly libseccomp: string;
}

/** Makes one component's file and stores it. */
export async function assembleComponent(
  context: BundleContext,
  store: BlobStore,
  planned: PlannedComponent,
  parts: Parts,
): Promise<Outcome> {
  const digest = await store.put(await contentOf(context, planned, parts), { signal: context.signal });
  return { ...digest, source: describeSource(planned, parts) };
}

async function contentOf(
  context: BundleContext,
  planned: PlannedComponent,
  parts: Parts,
): Promise<AsyncIterable<Uint8Array>> {
  const { recipe } = planned;
  switch (recipe.kind) {
    case 'binary':
      return context.ports.streams.readChunks(programPath(parts, recipe.program), { signal: context.signal });
    case 'image':
      return imageContent(context, recipe, parts);
    case 'chart':
      return chartContent(context, recipe);
  }
}

async function imageContent(
  context: BundleContext,
  recipe: ImageRecipe,
  parts: Parts,
): Promise<AsyncIterable<Uint8Array>> {
  const layers = await Promise.all(recipe.layers.map((layer) => layerEntries(context, layer, parts)));
  return writeImageArchive({
    reference: recipe.reference,
    architecture: context.machine.architecture,
    layers,
    entrypoint: recipe.entrypoint,
    ...(recipe.user === undefined ? {} : { user: recipe.user }),
  });
}

async function layerEntries(
  context: BundleContext,
  layer: LayerRecipe,
  parts: Parts,
): Promise<readonly TarEntry[]> {
  if (layer.kind === 'accounts') return accountsLayer();
  if (layer.kind === 'netbase') {
    if (parts.netbase === undefined) throw new TypeError('making an image: its packages were not fetched');
    return parts.netbase.entries;
  }
  const source = programPath(parts, layer.program);
  const stat = await context.ports.files.stat(source);
  return [
    {
      type: 'file',
      path: layer.path,
      mode: 0o755,
      sizeBytes: stat?.sizeBytes ?? 0,
      content: () => context.ports.streams.readChunks(source, { signal: context.signal }),
      ...(layer.netBindService === true ? { xattrs: { 'security.capability': CAP_NET_BIND_SERVICE } } : {}),
    },
  ];
}

async function* chartContent(context: BundleContext, recipe: ChartRecipe): AsyncGenerator<Uint8Array> {
  const folder = join(context.resources.charts, recipe.folder);
  yield await packChart(recipe.folder, await readSources(context.ports.files, folder));
}

function programPath(parts: Parts, program: string): string {
  const path = parts.programs.get(program);
  if (path === undefined) throw new TypeError(`putting components together: ${program} was not built`);
  return path;
}

function describeSource(planned: PlannedComponent, parts: Parts): string {
  if (planned.recipe.kind === 'chart') return `cli/charts/${planned.recipe.folder}`;
  const code = planned.modules.flatMap((each) =>
    each.from.kind === 'modules' ? each.from.modules : [`cli/bundle/programs`],
  );
  const compilers = [`go${GO_TOOLCHAIN.version}`];
  for (const module of planned.modules) {
    if (module.cgo && parts.cToolchain !== undefined) compilers.push(...cVersions(module, parts.cToolchain));
  }
  const packages =
    planned.needsNetbase && parts.netbase !== undefined ? `; with ${parts.netbase.source}` : '';
  return `${code.join(', ')} (${compilers.join(', ')})${packages}`.slice(0, MAX_SOURCE_CHARACTERS);
}

function cVersions(module: GoModuleRecipe, { gcc, libc, libseccomp }: CToolchain): readonly string[] {
  return [`gcc ${gcc}`, libc, ...(module.tags.includes('seccomp') ? [`libseccomp ${libseccomp}`] : [])];
}
