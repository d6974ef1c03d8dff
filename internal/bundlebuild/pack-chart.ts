import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { FilePort } from '../file/index.ts';
import { tarFileOf, writeTar } from './archive/tar-writer.ts';

const MAX_SOURCE_BYTES = 1024 * 1024;

/** One source file, its path relative to the directory of the chart or program. */
export interface SourceFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** All files below a directory of our own sources (a chart, a program), sorted by path. */
export async function readSourceFiles(
  files: FilePort,
  directory: string,
  below = '',
): Promise<readonly SourceFile[]> {
  const found: SourceFile[] = [];
  for (const name of await files.list(join(directory, below))) {
    const path = join(below, name);
    if ((await files.stat(join(directory, path)))?.kind === 'directory') {
      found.push(...(await readSourceFiles(files, directory, path)));
      continue;
    }
    const bytes = await files.read(join(directory, path), MAX_SOURCE_BYTES);
    if (bytes !== undefined) found.push({ path, bytes });
  }
  return found;
}

/** The archive that `helm package` would make (Chart.yaml first, then by path), but with the same bytes each time. */
export async function packChart(name: string, files: readonly SourceFile[]): Promise<Uint8Array> {
  const rank = ({ path }: SourceFile): string => (path === 'Chart.yaml' ? '' : path);
  const sorted = files.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1));
  const entries = sorted.map(({ path, bytes }) => tarFileOf(`${name}/${path}`, bytes));
  // gzipSync writes neither a time nor a name into the header.
  return gzipSync(Buffer.concat(await Array.fromAsync(writeTar(entries))), { level: 9 });
}
