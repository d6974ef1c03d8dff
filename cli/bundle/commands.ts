import { dirname, join } from 'node:path';
import type { BundleManifest } from '../../internal/bundle/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes, formatTable } from '../host/index.ts';
import { buildBundle, type MadeBundle } from './build.ts';
import type { BundleContext } from './context.ts';
import { fetchBundle, type FetchOptions } from './fetch.ts';
import { FetchHttp } from './http.ts';
import { thisMachine } from './machine.ts';
import { listBundles, readBundle, type ListedBundle } from './read.ts';
import { verifyBundle } from './verify.ts';

/** A command's context as bundles need it. */
export function bundleContext(context: CommandContext): BundleContext {
  return {
    host: context.host,
    ports: { ...context.ports, streams: new DiskStreams(), http: new FetchHttp() },
    cache: context.paths.cache,
    resources: ownSources(import.meta.filename),
    machine: thisMachine(),
    env: context.env,
    signal: context.signal,
  };
}

/** Where our charts and programs lie: in a checkout beside this file, in a package beside the one file that all is in. */
export function ownSources(thisFile: string): BundleContext['resources'] {
  const folder = dirname(thisFile);
  const isPackaged = !thisFile.endsWith('.ts');
  return { charts: join(folder, isPackaged ? 'charts' : '../charts'), programs: join(folder, 'programs') };
}

export async function runBundleBuild(
  context: CommandContext,
  options: { readonly kubernetesVersion: string; readonly rebuild: boolean },
): Promise<void> {
  tellMade(context, await buildBundle(bundleContext(context), options));
}

export async function runBundleFetch(context: CommandContext, options: FetchOptions): Promise<void> {
  tellMade(context, await fetchBundle(bundleContext(context), options));
}

/** `unhealthy` when something is missing or damaged; each is named. */
export async function runBundleVerify(
  context: CommandContext,
  options: { readonly kubernetesVersion: string },
): Promise<ExitName> {
  const bundle = bundleContext(context);
  const manifest = await readBundle(bundle, options.kubernetesVersion);
  const findings = await verifyBundle(bundle, manifest);
  const { length } = manifest.components;
  context.host.result({ name: manifest.name, components: length, findings }, () =>
    findings.length === 0
      ? `${manifest.name}: all ${length} components are what the manifest says`
      : findings.map((each) => `${each.name}: ${each.message}`).join('\n'),
  );
  return findings.length === 0 ? 'ok' : 'unhealthy';
}

/** All bundles, or the components of one. */
export async function runBundleList(
  context: CommandContext,
  options: { readonly kubernetesVersion: string | undefined },
): Promise<void> {
  const bundle = bundleContext(context);
  if (options.kubernetesVersion !== undefined) {
    const manifest = await readBundle(bundle, options.kubernetesVersion);
    context.host.result(manifest, () => componentTable(manifest));
    return;
  }
  const bundles = await listBundles(bundle);
  context.host.result(bundles, () =>
    bundles.length === 0 ? 'There is no bundle yet: run `cluster bundle build`.' : bundleTable(bundles),
  );
}

function tellMade(context: CommandContext, { manifest, manifestPath, made }: MadeBundle): void {
  const size = formatBytes(totalBytes(manifest));
  const { length } = manifest.components;
  const what = made.length === 0 ? 'nothing to do' : `${made.length} made`;
  const answer = {
    name: manifest.name,
    manifestPath,
    components: length,
    sizeBytes: totalBytes(manifest),
    made,
  };
  context.host.result(
    answer,
    () => `${manifest.name}: ${length} components, ${size} (${what})\n${manifestPath}`,
  );
}

function componentTable(manifest: BundleManifest): string {
  const rows = manifest.components.map((each) => [
    each.name,
    each.version,
    each.kind,
    each.scope,
    formatBytes(each.sizeBytes),
    each.sha256.slice(0, 12),
  ]);
  return formatTable(
    ['NAME', 'VERSION', 'KIND', 'SCOPE', 'SIZE', 'SHA256'],
    [...rows, ['total', '', '', '', formatBytes(totalBytes(manifest)), '']],
  );
}

function bundleTable(bundles: readonly ListedBundle[]): string {
  const rows = bundles.map(({ manifest, missing }) => [
    manifest.name,
    String(manifest.components.length),
    formatBytes(totalBytes(manifest)),
    missing.length === 0 ? 'complete' : `lacks ${missing.join(', ')}`,
  ]);
  return formatTable(['NAME', 'COMPONENTS', 'SIZE', 'STATE'], rows);
}

function totalBytes(manifest: BundleManifest): number {
  return manifest.components.reduce((total, each) => total + each.sizeBytes, 0);
}
