import { createHash } from 'node:crypto';
import type { BlobStore, BundleManifest } from '../../internal/bundle/index.ts';
import { FileError, type FilePort } from '../../internal/file/index.ts';
import { findCaBundle } from './ca-bundle.ts';
import { ChartError } from './errors.ts';
import { findLocalChart, readChartFiles, type ChartFiles } from './local-charts.ts';
import type { ChartSource, PlannedChart } from './plan-charts.ts';

/** A chart in the form of helm's arguments. */
export interface LocatedChart {
  /** Arguments that select the chart. */
  readonly args: readonly [string, ...string[]];
  /** Identifies the content of the chart: a hash for local files, an exact version for a repository or registry. */
  readonly identity: string;
}

/** Ports for locating charts outside of the bundle. */
interface OwnSourcePorts {
  readonly files: FilePort;
  /** Directory of cluster.yaml, to which paths are relative. */
  readonly root: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Ports for locating charts. */
export interface SourcePorts extends OwnSourcePorts {
  readonly bundle: { readonly store: BlobStore; readonly manifest: BundleManifest };
}

type OwnSource = Exclude<ChartSource, { readonly kind: 'bundle' }>;

/** Locates a chart and identifies its content. @throws ChartError `charts-source-missing`, `charts-no-ca-bundle` */
export async function locateChart(source: ChartSource, ports: SourcePorts): Promise<LocatedChart> {
  return source.kind === 'bundle' ? locateInBundle(source.component, ports) : locateOwn(source, ports);
}

async function locateOwn(source: OwnSource, ports: OwnSourcePorts): Promise<LocatedChart> {
  switch (source.kind) {
    case 'path': {
      const path = await findLocalChart(ports.files, ports.root, source.path);
      return { args: [path], identity: hashOf(await readChartFiles(ports.files, path)) };
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

/** Plain HTTP only if the configuration sets `plainHttp`. */
async function registryFlags(
  { plainHttp }: Extract<ChartSource, { readonly kind: 'oci' }>,
  { files, env }: OwnSourcePorts,
): Promise<readonly string[]> {
  return plainHttp ? ['--plain-http'] : ['--ca-file', await findCaBundle(files, env)];
}

/** SHA-256 of all inputs of an installation: equal hashes give equal results. */
export function inputsHashOf(chart: PlannedChart, located: LocatedChart): string {
  const { name, namespace, values, wait } = chart;
  return createHash('sha256')
    .update(JSON.stringify([1, name, namespace, located.identity, values, wait]))
    .digest('hex');
}

/**
 * The inputs of each chart of the operator's own, as the labels of releases have them (see `inputsLabel`), by
 * "namespace/name". Reads no network. Charts that come with the bundle, or are not found, are left out.
 */
export async function readOwnInputs(
  plan: readonly PlannedChart[],
  ports: OwnSourcePorts,
): Promise<ReadonlyMap<string, string>> {
  const inputs = new Map<string, string>();
  for (const chart of plan) {
    if (chart.source.kind === 'bundle') continue;
    const located = await locateOwn(chart.source, ports).catch((error: unknown) => {
      if (error instanceof ChartError || error instanceof FileError) return undefined;
      throw error;
    });
    if (located !== undefined)
      inputs.set(`${chart.namespace}/${chart.name}`, inputsLabel(inputsHashOf(chart, located)));
  }
  return inputs;
}

/** The value of a label has at most 63 characters, so the hash is cut to 160 bits. */
export function inputsLabel(inputsHash: string): string {
  return inputsHash.slice(0, 40);
}

async function locateInBundle(component: string, { bundle, signal }: SourcePorts): Promise<LocatedChart> {
  const found = bundle.manifest.components.find(({ name, kind }) => name === component && kind === 'chart');
  if (found === undefined) {
    const names = bundle.manifest.components.filter(({ kind }) => kind === 'chart').map(({ name }) => name);
    throw new ChartError(
      'charts-source-missing',
      `chart ${JSON.stringify(component)} not found in bundle ${bundle.manifest.name}, which contains ${names.join(', ') || 'no charts'}`,
    );
  }
  return { args: [await bundle.store.verify(found, signal)], identity: found.sha256 };
}

/** SHA-256 of the names and contents of the files of a chart, in their order. */
function hashOf(files: ChartFiles): string {
  const hash = createHash('sha256');
  for (const [name, bytes] of files) hash.update(JSON.stringify([name, bytes.length])).update(bytes);
  return hash.digest('hex');
}
