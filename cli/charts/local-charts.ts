import { createHash } from 'node:crypto';
import { dirname, join, resolve } from 'node:path';
import type { ClusterConfig } from '../../internal/config/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { ChartError } from './errors.ts';
import { sourceFrom } from './plan-charts.ts';

const MAX_CHART_BYTES = 64 * 1024 * 1024;
const RESTORED = 'restored-charts';
/** Names as `readChartFiles()` gives them, without a way out of the directory. */
const FILE_NAME = /^(?:\/(?!\.{1,2}(?:\/|$))[^/\0]+)*$/;

/** The content of each file of a chart by its name: "/Chart.yaml", or "" for an archive. */
export type ChartFiles = ReadonlyMap<string, Uint8Array>;

/** The charts of cluster.yaml that it names by a path of the workstation. */
export function localChartsOf(
  charts: ClusterConfig['charts'],
): readonly { readonly name: string; readonly path: string }[] {
  return charts.flatMap((chart) => {
    const source = sourceFrom(chart);
    return source.kind === 'path' ? [{ name: chart.name, path: source.path }] : [];
  });
}

/**
 * Where a chart is that cluster.yaml names by a path: there, or if that does not exist, where a restored backup put it.
 * @param root directory of cluster.yaml
 */
export async function findLocalChart(
  files: Pick<FilePort, 'stat'>,
  root: string,
  path: string,
): Promise<string> {
  const [own, restored] = [resolve(root, path), restoredPath(root, path)];
  if ((await files.stat(own)) !== undefined) return own;
  return (await files.stat(restored)) === undefined ? own : restored;
}

/** The files of a chart, which is a directory or an archive. @throws ChartError `charts-source-missing` */
export async function readChartFiles(
  files: Pick<FilePort, 'stat' | 'list' | 'read'>,
  path: string,
): Promise<ChartFiles> {
  const found = new Map<string, Uint8Array>();
  const walk = async (at: string, name: string): Promise<void> => {
    if ((await files.stat(at))?.kind === 'directory') {
      for (const entry of await files.list(at)) await walk(join(at, entry), `${name}/${entry}`);
      return;
    }
    const bytes = await files.read(at, MAX_CHART_BYTES);
    if (bytes === undefined)
      throw new ChartError('charts-source-missing', `chart ${path} not found: ${at} does not exist`);
    found.set(name, bytes);
  };
  await walk(path, '');
  return found;
}

/**
 * Writes the files of a chart from a backup into the workspace, where `findLocalChart()` finds them.
 * @param path as cluster.yaml names the chart
 * @throws TypeError for a name that leads out of the directory
 */
export async function writeRestoredChart(
  files: Pick<FilePort, 'makeDirectory' | 'writeAtomic'>,
  root: string,
  { path, content }: { readonly path: string; readonly content: ChartFiles },
): Promise<void> {
  for (const [name, bytes] of content) {
    if (!FILE_NAME.test(name)) throw new TypeError(`writing a chart: the file name ${JSON.stringify(name)}`);
    const file = `${restoredPath(root, path)}${name}`;
    await files.makeDirectory(dirname(file));
    await files.writeAtomic(file, bytes, { mode: 0o600 });
  }
}

function restoredPath(root: string, path: string): string {
  return join(root, RESTORED, createHash('sha256').update(path).digest('hex').slice(0, 16));
}
