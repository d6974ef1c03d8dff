import { join } from 'node:path';
import {
  accountsLayer,
  tarFileOf,
  unpackPackages,
  writeImageArchive,
  type BuildContext,
  type TarEntry,
} from '../../internal/bundlebuild/index.ts';
import { directoryLayer } from './directory-layer.ts';
import { parseImageList } from './image-list.ts';
import {
  agnhostFiles,
  busyboxLinks,
  DEBIAN_PACKAGES,
  MERGED_LINKS,
  mergeUsr,
  KITTEN_RELEASE,
  LOCAL_SHELL_LINK,
  NGINX_FILES,
  PROGRAM_PATHS,
  SHELL_LINK,
  testImages,
  TOOL_LINKS,
  type LayerName,
} from './image-recipes.ts';

const MAX_FILE_BYTES = 4 * 1024 * 1024;

/** The inputs of the images. */
export interface ImageSources {
  readonly kubernetesVersion: string;
  /** Name of each program → its path on the machine that builds the archive. */
  readonly programs: ReadonlyMap<string, string>;
  /** A directory for packages. */
  readonly directory: string;
}

type Entries = readonly TarEntry[];

/** One archive with all images that the tests of a release start. */
export async function* writeTestImages(
  context: BuildContext,
  sources: ImageSources,
): AsyncGenerator<Uint8Array> {
  const module = join(context.cache, 'go/mod', `k8s.io/kubernetes@${sources.kubernetesVersion}`);
  const manifest = await readRequired(context, join(module, 'test/utils/image/manifest.go'));
  const images = testImages(parseImageList(Buffer.from(manifest).toString()));
  const layers = await allLayers(context, sources, join(module, 'test/images'));
  const { architecture } = context.machine;
  yield* writeImageArchive(
    ...[...images].map(([reference, { layers: names, ...rest }]) => ({
      ...{ reference, architecture, ...rest },
      layers: names.map((name) => layers[name]),
    })),
  );
}

/** A file that must exist. */
export async function readRequired(context: BuildContext, path: string): Promise<Uint8Array> {
  const bytes = await context.ports.files.read(path, MAX_FILE_BYTES);
  if (bytes === undefined) throw new TypeError(`${path} not found`);
  return bytes;
}

async function allLayers(
  context: BuildContext,
  sources: ImageSources,
  upstream: string,
): Promise<Readonly<Record<LayerName, Entries>>> {
  const read = (path: string): Promise<Uint8Array> => readRequired(context, join(upstream, path));
  const packages = async (name: keyof typeof DEBIAN_PACKAGES) =>
    unpackPackages(context, join(sources.directory, name), DEBIAN_PACKAGES[name]);
  const unpacked = async (name: keyof typeof DEBIAN_PACKAGES): Promise<Entries> =>
    mergeUsr(await directoryLayer(context, (await packages(name)).root));
  const pictures = async (name: string): Promise<Entries> =>
    Promise.all(
      [`${name}.jpg`, 'data.json'].map(async (file) => tarFileOf(file, await read(`${name}/html/${file}`))),
    );
  const program = (name: keyof typeof PROGRAM_PATHS) => programLayer(context, sources, name);
  return {
    accounts: [...accountsLayer(), ...MERGED_LINKS],
    busybox: await busyboxLayer(context, (await packages('busybox')).root),
    shell: await unpacked('shell'),
    'shell-link': SHELL_LINK,
    'local-shell-link': LOCAL_SHELL_LINK,
    tools: await unpacked('tools'),
    'tool-links': TOOL_LINKS,
    nginx: await unpacked('nginx'),
    'nginx-files': NGINX_FILES,
    agnhost: await program('agnhost'),
    'agnhost-files': agnhostFiles({
      certificate: await read('agnhost/porter/localhost.crt'),
      key: await read('agnhost/porter/localhost.key'),
    }),
    nonewprivs: await program('nonewprivs'),
    'regression-issue-74839': await program('regression-issue-74839'),
    'sample-apiserver': await program('sample-apiserver'),
    kitten: [...(await pictures('kitten')), KITTEN_RELEASE],
    nautilus: await pictures('nautilus'),
  };
}

async function busyboxLayer(context: BuildContext, root: string): Promise<Entries> {
  const entries = mergeUsr(await directoryLayer(context, root));
  const found = entries.find(({ path }) => path === 'usr/bin/busybox');
  if (found === undefined) throw new TypeError('the package of busybox has no busybox');
  const script = `for program in "$1/bin/busybox" "$1/usr/bin/busybox"; do [ ! -x "$program" ] || exec "$program" --list; done`;
  const listed = await context.ports.commands.run({
    argv: ['sh', '-c', script, 'sh', root],
    signal: context.signal,
  });
  return [found, ...busyboxLinks(listed.stdout)];
}

async function programLayer(
  context: BuildContext,
  { programs }: ImageSources,
  name: keyof typeof PROGRAM_PATHS,
): Promise<Entries> {
  const source = programs.get(name) ?? '';
  const stat = await context.ports.files.stat(source);
  if (stat === undefined) throw new TypeError(`${name} was not built`);
  const content = () => context.ports.streams.readChunks(source, { signal: context.signal });
  return [{ type: 'file', ...PROGRAM_PATHS[name], sizeBytes: stat.sizeBytes, content }];
}
