import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { zstdDecompressSync } from 'node:zlib';

const run = promisify(execFile);
const ZSTD_MAGIC = Buffer.from('28b52ffd', 'hex');

/**
 * Copies a program from the newest bundle in this machine's cache to a file below `directory`. The program
 * may be in a container image.
 */
export async function programOfBundle(name: string, directory: string): Promise<string> {
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
  const { stdout } = await run('ls', [join(cache, 'bundles')]);
  const bundle = stdout.trim().split('\n').at(-1);
  if (bundle === undefined || bundle === '') throw new Error(`no bundle in ${cache}`);
  const { components } = JSON.parse(await readFile(join(cache, 'bundles', bundle), 'utf8')) as {
    components: readonly { readonly name: string; readonly kind: string; readonly sha256: string }[];
  };
  const component = components.find((each) => each.name === name);
  if (component === undefined) throw new Error(`bundle ${bundle} has no ${name}`);
  const blob = join(cache, 'blobs/sha256', component.sha256);
  const to = join(directory, `of-${name}`);
  await mkdir(to);
  if (component.kind === 'image') {
    return unpackProgram(blob, name, to);
  }
  await copyFile(blob, join(to, name));
  await chmod(join(to, name), 0o755);
  return join(to, name);
}

/** Unpacks a program from an image archive of ours or of upstream, whose layers tar can read. */
async function unpackProgram(archive: string, name: string, to: string): Promise<string> {
  await run('tar', ['-xf', archive, '-C', to]);
  const program = `usr/local/bin/${name}`;
  const files = await readdir(to, { recursive: true, withFileTypes: true });
  for (const file of files.filter((each) => each.isFile())) {
    const path = join(file.parentPath, file.name);
    const bytes = await readFile(path);
    if (bytes.subarray(0, 4).equals(ZSTD_MAGIC)) await writeFile(path, zstdDecompressSync(bytes));
    const found = await run('tar', ['-xf', path, '-C', to, program]).catch(() => undefined);
    if (found !== undefined) return join(to, program);
  }
  throw new Error(`no layer of ${archive} has ${program}`);
}
