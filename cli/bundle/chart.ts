import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { FilePort } from '../../internal/file/index.ts';
import { tarFileOf, writeTar } from './tar-writer.ts';

const MAX_SOURCE_BYTES = 1024 * 1024;

/** One file of a directory of sources, path relative to the directory. */
export interface SourceFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** All files below a directory of ours (a chart, a program), sorted. */
export async function readSources(
  files: FilePort,
  folder: string,
  below = '',
): Promise<readonly SourceFile[]> {
  const found: SourceFile[] = [];
  for (const name of await files.list(join(folder, below))) {
    const path = join(below, name);
    if ((await files.stat(join(folder, path)))?.kind === 'directory') {
      found.push(...(await readSources(files, folder, path)));
      continue;
    }
    const bytes = await files.read(join(folder, path), MAX_SOURCE_BYTES);
    if (bytes !== undefined) found.push({ path, bytes });
  }
  return found;
}

/** What `helm package` would make, with the same bytes each time: Chart.yaml first, then by path. */
export async function packChart(name: string, files: readonly SourceFile[]): Promise<Uint8Array> {
  const rank = (file: SourceFile): string => (file.path === 'Chart.yaml' ? '' : file.path);
  const sorted = [...files].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  const chunks: Uint8Array[] = [];
  for await (const chunk of writeTar(sorted.map((file) => tarFileOf(`${name}/${file.path}`, file.bytes)))) {
    chunks.push(chunk);
  }
  // zlib writes no time and no name into the header unless it is told one.
  return gzipSync(Buffer.concat(chunks), { level: 9 });
}
