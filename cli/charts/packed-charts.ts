import { gunzipSync, gzipSync } from 'node:zlib';
import { z } from 'zod';
import { BackupError } from '../../internal/backup/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { parseJson, type FilePort } from '../../internal/file/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { formatBytes } from '../host/index.ts';
import { readConfig, type WorkspaceLayout } from '../workspace/index.ts';
import {
  findLocalChart,
  localChartsOf,
  readChartFiles,
  writeRestoredChart,
  type ChartFiles,
} from './local-charts.ts';

/** The most bytes of all packed charts together. A schedule stores them in etcd, which accepts 1.5 MiB at once. */
export const MAX_CHARTS_BYTES = 384 * 1024;
/** No chart that was packed is larger. */
const MAX_UNPACKED_BYTES = 128 * 1024 * 1024;

/** A chart in a backup: its path in cluster.yaml, and its files by name (base64) as compressed JSON. */
export const packedChartShape = z.strictObject({ path: z.string().min(1).max(4096), files: z.base64() });
const filesShape = z.record(z.string().max(1024), z.base64());

/** See `packedChartShape`. */
export type PackedChart = z.infer<typeof packedChartShape>;

/** Packs the charts that cluster.yaml names by a path. Warns about each one that is not found or too large, and leaves it out. */
export async function packCharts(
  { ports: { files }, host }: Pick<CommandContext, 'ports' | 'host'>,
  layout: WorkspaceLayout,
): Promise<readonly PackedChart[]> {
  const packed: PackedChart[] = [];
  let left = MAX_CHARTS_BYTES;
  const leaveOut = (name: string, path: string, why: string): void =>
    host.warn(
      'backup-chart-left-out',
      `chart ${name} (${printable(path)}) is not in the backup: ${why}. Keep a copy of it beside the backup`,
      { chart: name, path },
    );
  const config = await readConfig(files, layout).catch((error: unknown) => {
    if (findCoded(error) === undefined) throw error;
    host.warn(
      'backup-charts-unknown',
      `charts that cluster.yaml names by a path are not in the backup, because cluster.yaml cannot be read: ${describeError(error)}`,
    );
    return undefined;
  });
  for (const { name, path } of localChartsOf(config?.charts ?? [])) {
    if (packed.some((each) => each.path === path)) continue;
    const content = await readChartFiles(files, await findLocalChart(files, layout.root, path)).catch(
      (error: unknown) => {
        if (findCoded(error) === undefined) throw error;
        return undefined;
      },
    );
    const bytes = content && gzipSync(encode(content));
    if (bytes === undefined) leaveOut(name, path, 'it cannot be read');
    else if (bytes.length > left)
      leaveOut(
        name,
        path,
        `compressed ${formatBytes(bytes.length)}, and ${formatBytes(left)} are left for charts`,
      );
    else {
      left -= bytes.length;
      packed.push({ path, files: bytes.toString('base64') });
    }
  }
  return packed;
}

/** Writes packed charts into a workspace. @throws BackupError `backup-content-invalid` */
export async function unpackCharts(
  files: FilePort,
  root: string,
  charts: readonly PackedChart[],
): Promise<void> {
  for (const { path, files: packed } of charts)
    await writeRestoredChart(files, root, { path, content: decode(packed, path) });
}

function encode(content: ChartFiles): string {
  const names = [...content].map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')] as const);
  return JSON.stringify(Object.fromEntries(names));
}

function decode(packed: string, path: string): ChartFiles {
  try {
    const json = gunzipSync(Buffer.from(packed, 'base64'), { maxOutputLength: MAX_UNPACKED_BYTES });
    const files = filesShape.parse(parseJson(json.toString('utf8')));
    return new Map(
      Object.entries(files).map(([name, text]) => [name, new Uint8Array(Buffer.from(text, 'base64'))]),
    );
  } catch (cause) {
    const doing = `reading chart ${JSON.stringify(path)} in a backup`;
    throw new BackupError('backup-content-invalid', doing, { cause });
  }
}
