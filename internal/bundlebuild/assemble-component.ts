import { join } from 'node:path';
import { GO_TOOLCHAIN, type BlobStore } from '../bundle/index.ts';
import type { TarEntry } from './archive/tar-writer.ts';
import type { BuiltComponent } from './build-cache.ts';
import type { BuildContext } from './build-context.ts';
import { accountsLayer, CAP_NET_BIND_SERVICE, writeImageArchive } from './images/image-archive.ts';
import type { NetworkTools } from './images/network-tools.ts';
import { packChart, readSourceFiles } from './pack-chart.ts';
import type { PlannedComponent } from './plan-bundle.ts';
import type { ChartRecipe, GoModuleRecipe, ImageRecipe, LayerRecipe } from './recipes/recipe.ts';

const MAX_SOURCE_CHARACTERS = 1000;

/** The parts that components consist of. */
export interface ComponentParts {
  /** Program name → path of the file that was built or downloaded. */
  readonly programs: ReadonlyMap<string, string>;
  readonly networkTools: NetworkTools | undefined;
  /**
   * The C compiler and libraries of this machine. Programs that are built with cgo contain parts of them.
   */
  readonly cToolchain: CToolchain | undefined;
}

/** The version texts of the C toolchain, for the manifest. */
export interface CToolchain {
  readonly gcc: string;
  readonly libc: string;
  readonly libseccomp: string;
}

/** Makes the file of one component and stores it. */
export async function assembleComponent(
  context: BuildContext,
  store: BlobStore,
  planned: PlannedComponent,
  parts: ComponentParts,
): Promise<BuiltComponent> {
  const digest = await store.put(await contentOf(context, planned, parts), { signal: context.signal });
  return { ...digest, source: describeSource(planned, parts) };
}

async function contentOf(
  context: BuildContext,
  { recipe }: PlannedComponent,
  parts: ComponentParts,
): Promise<AsyncIterable<Uint8Array>> {
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
  context: BuildContext,
  recipe: ImageRecipe,
  parts: ComponentParts,
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
  context: BuildContext,
  layer: LayerRecipe,
  parts: ComponentParts,
): Promise<readonly TarEntry[]> {
  if (layer.kind === 'accounts') return accountsLayer();
  if (layer.kind === 'network-tools') {
    if (parts.networkTools === undefined) throw new TypeError('the packages of an image were not downloaded');
    return parts.networkTools.entries;
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

async function* chartContent(context: BuildContext, recipe: ChartRecipe): AsyncGenerator<Uint8Array> {
  const directory = join(context.sources.charts, recipe.directory);
  yield await packChart(recipe.directory, await readSourceFiles(context.ports.files, directory));
}

function programPath({ programs }: ComponentParts, program: string): string {
  const path = programs.get(program);
  if (path === undefined) throw new TypeError(`assembling components: ${program} was not built`);
  return path;
}

function describeSource(planned: PlannedComponent, parts: ComponentParts): string {
  if (planned.recipe.kind === 'chart') return `cli/charts/${planned.recipe.directory}`;
  const code = planned.modules.flatMap(({ from }) =>
    from.kind === 'modules' ? from.modules : ['internal/bundlebuild/programs'],
  );
  const compilers = [`go${GO_TOOLCHAIN.version}`];
  for (const module of planned.modules) {
    if (module.cgo && parts.cToolchain !== undefined) compilers.push(...cVersions(module, parts.cToolchain));
  }
  const packages =
    planned.needsNetworkTools && parts.networkTools !== undefined
      ? `; with ${parts.networkTools.source}`
      : '';
  return `${code.join(', ')} (${compilers.join(', ')})${packages}`.slice(0, MAX_SOURCE_CHARACTERS);
}

function cVersions(module: GoModuleRecipe, { gcc, libc, libseccomp }: CToolchain): readonly string[] {
  return [`gcc ${gcc}`, libc, ...(module.tags.includes('seccomp') ? [`libseccomp ${libseccomp}`] : [])];
}
