import { arch, availableParallelism, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { verifyComponents, type BundleManifest, type CachedBundle } from '../../internal/bundle/index.ts';
import {
  buildBundle,
  bundleBom,
  FetchHttp,
  fetchBundle,
  findOutdated,
  openBundleCache,
  type BuildContext,
  type BuildOptions,
  type BuiltBundle,
  type FetchOptions,
  type PinnedModule,
} from '../../internal/bundlebuild/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { formatBytes, formatTable, type Listing } from '../host/index.ts';

/** Converts the context of a command to the form that bundle builds need. */
export function buildContext(context: CommandContext): BuildContext {
  return {
    reporter: context.host,
    ports: { ...context.ports, streams: new DiskStreams(), http: new FetchHttp() },
    cache: context.paths.cache,
    sources: ownSources(import.meta.filename),
    machine: {
      architecture: arch() === 'arm64' ? 'arm64' : 'amd64',
      cores: availableParallelism(),
      memoryBytes: totalmem(),
    },
    env: context.env,
    signal: context.signal,
  };
}

/** The sources of our own charts and programs: in a checkout below its root, in a package beside the bundled program. */
export function ownSources(thisFile: string): BuildContext['sources'] {
  const directory = dirname(thisFile);
  return thisFile.endsWith('.ts')
    ? {
        charts: join(directory, '../charts'),
        programs: join(directory, '../../internal/bundlebuild/programs'),
      }
    : { charts: join(directory, 'charts'), programs: join(directory, 'programs') };
}

/** `cluster bundle build` */
export async function runBundleBuild(context: CommandContext, options: BuildOptions): Promise<void> {
  showBuilt(context, await buildBundle(buildContext(context), options));
}

/** `cluster bundle fetch` */
export async function runBundleFetch(context: CommandContext, options: FetchOptions): Promise<void> {
  showBuilt(context, await fetchBundle(buildContext(context), options));
}

/** `cluster bundle verify`. Returns `unhealthy` when a component is missing or damaged, and lists all of these. */
export async function runBundleVerify(
  context: CommandContext,
  options: { readonly kubernetesVersion: string },
): Promise<ExitName> {
  const { machine, ...build } = buildContext(context);
  const cache = openBundleCache(build);
  const manifest = await cache.read(options.kubernetesVersion, machine.architecture);
  const { length } = manifest.components;
  const of = totalBytes(manifest);
  const findings = await context.host.step('bundle-verify', `Hashing ${length} components`, (progress) =>
    verifyComponents(cache.store, manifest, {
      onComponent: ({ name, sizeBytes }, value) =>
        progress.update(`${name}, ${formatBytes(sizeBytes)}`, { of, value, unit: 'bytes' }),
      signal: context.signal,
    }),
  );
  context.host.result({ name: manifest.name, components: length, findings }, () =>
    findings.length === 0
      ? `${manifest.name}: ${length} components verified`
      : findings.map(({ name, message }) => `${name}: ${message}`).join('\n'),
  );
  return findings.length === 0 ? 'ok' : 'unhealthy';
}

/** `cluster bundle sbom`: one JSON document, also in text mode. */
export async function runBundleSbom(
  context: CommandContext,
  options: { readonly kubernetesVersion: string },
): Promise<void> {
  const { machine, ...build } = buildContext(context);
  const cache = openBundleCache(build);
  const manifest = await cache.read(options.kubernetesVersion, machine.architecture);
  const { length } = manifest.components;
  const bom = await context.host.step('bundle-sbom', `Reading ${length} components`, () =>
    bundleBom(manifest, ({ sha256 }) => cache.store.read(sha256, { signal: context.signal })),
  );
  context.host.result(bom, () => JSON.stringify(bom, undefined, 2));
}

/**
 * `cluster bundle outdated`. Returns `unhealthy` when a module has an update or a known vulnerability, and `unreachable` when
 * there is none as far as it could be read.
 */
export async function runBundleOutdated(context: CommandContext): Promise<ExitName> {
  const outdated = await context.host.step('bundle-outdated', 'Reading released versions', () =>
    findOutdated(buildContext(context)),
  );
  const { modules, vulnerabilitiesUnknown: unknown } = outdated;
  context.host.result(outdated, () =>
    [
      outdatedTable(modules),
      ...modules.flatMap(({ module, newest, heldBack }) =>
        heldBack === undefined ? [] : [`${printable(module)} ${newest} is not used: ${heldBack}`],
      ),
      ...(unknown === undefined ? [] : [`! vulnerabilities not checked: ${unknown}`]),
    ].join('\n'),
  );
  const exits = { current: 'ok', outdated: 'unhealthy', unknown: 'unreachable' } as const;
  return exits[outdated.verdict];
}

function outdatedTable(modules: readonly PinnedModule[]): string {
  return formatTable(
    ['MODULE', 'PINNED', 'NEWEST PATCH', 'NEWEST', 'UPDATE', 'KUBERNETES', 'VULNERABILITIES'],
    modules.map(({ module, pinned, newestPatch, newest, update, kubernetes, vulnerabilities }) => [
      printable(module),
      pinned,
      newestPatch,
      newest,
      update ?? '<none>',
      kubernetes.join(','),
      vulnerabilities === undefined ? '<unknown>' : printable(vulnerabilities.join(',')) || '<none>',
    ]),
  );
}

/** `cluster bundle ls`: all bundles, or the components of one. */
export async function runBundleList(
  context: CommandContext,
  options: { readonly kubernetesVersion: string | undefined },
): Promise<void> {
  const { machine, ...build } = buildContext(context);
  const cache = openBundleCache(build);
  if (options.kubernetesVersion !== undefined) {
    const manifest = await cache.read(options.kubernetesVersion, machine.architecture);
    context.host.list(componentListing(manifest));
    return;
  }
  const bundles = await cache.list();
  context.host.list(bundleListing(bundles));
}

function showBuilt({ host }: CommandContext, { manifest, manifestPath, built: made }: BuiltBundle): void {
  const { name, components } = manifest;
  const sizeBytes = totalBytes(manifest);
  const status = made.length === 0 ? 'up to date' : `${made.length} built`;
  host.result({ name, manifestPath, components: components.length, sizeBytes, made }, () =>
    [
      `${name}: ${components.length} components, ${formatBytes(sizeBytes)} (${status})`,
      `Manifest: ${manifestPath}`,
    ].join('\n'),
  );
}

function componentListing(manifest: BundleManifest): Listing<BundleManifest['components'][number]> {
  return {
    data: { ...manifest },
    items: manifest.components,
    nameOf: ({ name }) => name,
    columns: [
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'VERSION', textOf: ({ version }) => version },
      { title: 'KIND', textOf: ({ kind }) => kind },
      { title: 'SCOPE', textOf: ({ scope }) => (scope === 'controlplane' ? 'control-plane' : scope) },
      { title: 'SIZE', textOf: ({ sizeBytes }) => formatBytes(sizeBytes) },
      { title: 'SHA256', textOf: ({ sha256 }) => sha256.slice(0, 12) },
    ],
    footer: ['total', '', '', '', formatBytes(totalBytes(manifest)), ''],
  };
}

function bundleListing(bundles: readonly CachedBundle[]): Listing<CachedBundle> {
  return {
    data: { bundles },
    items: bundles,
    nameOf: ({ manifest }) => manifest.name,
    empty: 'No bundles found. Build one with `cluster bundle build`.',
    columns: [
      { title: 'NAME', textOf: ({ manifest }) => manifest.name },
      { title: 'STATUS', textOf: ({ missing }) => (missing.length === 0 ? 'Complete' : 'Incomplete') },
      { title: 'COMPONENTS', textOf: ({ manifest }) => String(manifest.components.length) },
      { title: 'SIZE', textOf: ({ manifest }) => formatBytes(totalBytes(manifest)) },
      { title: 'MISSING', textOf: ({ missing }) => missing.join(', ') || '<none>' },
    ],
  };
}

function totalBytes(manifest: BundleManifest): number {
  return manifest.components.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
}
