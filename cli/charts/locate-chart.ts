import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { BlobStore, BundleManifest } from '../../internal/bundle/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { findCaBundle } from './ca-bundle.ts';
import { ChartError } from './errors.ts';
import type { ChartSource, PlannedChart } from './plan-charts.ts';

const MAX_CHART_BYTES = 64 * 1024 * 1024;

/** A chart as helm is told of it. */
export interface LocatedChart {
  /** The arguments that name it. */
  readonly args: readonly [string, ...string[]];
  /** What its content is known by: a hash where we have the bytes, an exact version where we have not. */
  readonly identity: string;
}

export interface SourcePorts {
  readonly files: FilePort;
  readonly bundle: { readonly store: BlobStore; readonly manifest: BundleManifest };
  /** Directory of cluster.yaml. */
  readonly root: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Finds a chart and what it is known by. @throws ChartError `charts-source-missing` */
export async function locateChart(source: ChartSource, ports: SourcePorts): Promise<LocatedChart> {
  switch (source.kind) {
    case 'bundle':
      return locateInBundle(source.component, ports);
    case 'path': {
      const path = resolve(ports.root, source.path);
      return { args: [path], identity: await hashTree(ports.files, path) };
    }
    case 'oci':
      return {
        args: [source.reference, '--version', source.version, ...(await registryFlags(source, ports))],
        identity: `${source.reference}@${source.version}`,
      };
    case 'repository': {
      const { url, chart, version } = source;
      return { args: [chart, '--repo', url, '--version', version], identity: `${url}#${chart}@${version}` };
    }
  }
}

/** Without TLS when the configuration says so, and only then. */
async function registryFlags(
  { plainHttp }: Extract<ChartSource, { readonly kind: 'oci' }>,
  { files, env }: SourcePorts,
): Promise<readonly string[]> {
  return plainHttp ? ['--plain-http'] : ['--ca-file', await findCaBundle(files, env)];
}

/** Two installs with the same hash make the same thing. */
export function inputsHashOf(chart: PlannedChart, located: LocatedChart): string {
  const { name, namespace, values, wait } = chart;
  return createHash('sha256')
    .update(JSON.stringify([1, name, namespace, located.identity, values, wait]))
    .digest('hex');
}

async function locateInBundle(component: string, { bundle, signal }: SourcePorts): Promise<LocatedChart> {
  const found = bundle.manifest.components.find(({ name, kind }) => name === component && kind === 'chart');
  if (found === undefined) {
    const names = bundle.manifest.components.filter(({ kind }) => kind === 'chart').map(({ name }) => name);
    throw new ChartError(
      'charts-source-missing',
      `chart ${JSON.stringify(component)} not found in ${bundle.manifest.name}: there are ${names.join(', ') || 'none'}`,
    );
  }
  return { args: [await bundle.store.verify(found, signal)], identity: found.sha256 };
}

/** SHA-256 over names and bytes of a file or of all files of a directory. */
async function hashTree(files: FilePort, path: string): Promise<string> {
  const hash = createHash('sha256');
  const walk = async (at: string, name: string): Promise<void> => {
    const stat = await files.stat(at);
    if (stat?.kind === 'directory') {
      for (const entry of await files.list(at)) await walk(join(at, entry), `${name}/${entry}`);
      return;
    }
    const bytes = await files.read(at, MAX_CHART_BYTES);
    if (bytes === undefined)
      throw new ChartError('charts-source-missing', `reading chart ${path}: ${at} does not exist`);
    hash.update(JSON.stringify([name, bytes.length])).update(bytes);
  };
  await walk(path, '');
  return hash.digest('hex');
}
