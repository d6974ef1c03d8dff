import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const UNPACK =
  'cd "$2" && tar -xf "$1" && for layer in $(find . -name "*.tar" -o -name "*.tar.gz"); do tar -xf "$layer" "usr/local/bin/$3" 2>/dev/null && rm "$layer"; done; test -x "usr/local/bin/$3"';

/** A program of the newest bundle of this machine's cache, also out of a container image, as a file below `folder`. */
export async function programOfBundle(name: string, folder: string): Promise<string> {
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
  const to = join(folder, `of-${name}`);
  await mkdir(to);
  if (component.kind === 'image') {
    await run('sh', ['-c', UNPACK, 'sh', blob, to, name]);
    return join(to, 'usr/local/bin', name);
  }
  await copyFile(blob, join(to, name));
  await chmod(join(to, name), 0o755);
  return join(to, name);
}
