import { mkdir, readdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { ExecaRunner } from '../../../internal/exec/index.ts';

const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';
const commands = new ExecaRunner({ path: PATH });
/** Time limit of a command. It is long, because the host may be busy. */
const PATIENCE_MS = 600_000;
const ENV = { PATH, HOME: homedir() };

/**
 * Unpacks Debian packages below one directory, from the cache or from the configured archive. It installs
 * nothing on this machine.
 */
export async function unpackPackages(names: readonly string[], target: string): Promise<void> {
  const cache = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster', 'debian');
  await mkdir(cache, { recursive: true });
  await mkdir(target, { recursive: true });
  for (const name of names) await run('dpkg-deb', '-x', await provide(name, cache), target);
}

/** The package of the kernel that the metapackage currently depends on. */
export async function kernelPackage(metapackage: string): Promise<string> {
  const { stdout } = await run('apt-cache', 'depends', metapackage);
  const name = /Depends: (linux-image-\S+)/.exec(stdout)?.[1];
  if (name === undefined) throw new Error(`${metapackage} names no kernel: ${stdout}`);
  return name;
}

async function provide(name: string, cache: string): Promise<string> {
  const find = async (): Promise<string | undefined> =>
    (await readdir(cache)).find((file) => file.startsWith(`${name}_`) && file.endsWith('.deb'));
  if ((await find()) === undefined)
    await commands.run({
      argv: ['apt-get', '-o', 'APT::Sandbox::User=root', 'download', name],
      cwd: cache,
      env: ENV,
      timeoutMs: PATIENCE_MS,
      signal: new AbortController().signal,
    });
  const found = await find();
  if (found === undefined) throw new Error(`downloading package ${name}: the archive has no such file`);
  return join(cache, found);
}

async function run(...argv: [string, ...string[]]): Promise<{ readonly stdout: string }> {
  return commands.run({ argv, env: ENV, timeoutMs: PATIENCE_MS, signal: new AbortController().signal });
}
