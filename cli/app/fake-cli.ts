import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import type { MemoryFiles } from '../../internal/testing/index.ts';

const MAIN = join(import.meta.dirname, '../main.ts');

/** A finished run of the program. */
export interface CliRun {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly tookMs: number;
}

/** The real program with a home directory of its own. Dispose it after the test. */
export interface CliHarness extends AsyncDisposable {
  /** A new directory; the current directory of the program and the parent of its home directory. */
  readonly root: string;
  run(args: readonly string[], options?: CliRunOptions): Promise<CliRun>;
  /** Copies a directory from the in-memory disk of a workstation to `root`. */
  copy(files: MemoryFiles, from: string, to: string): Promise<void>;
  /** The text of every file below `root`, without the caches of the program, by its path. */
  snapshot(): Promise<Readonly<Record<string, string>>>;
}

interface CliRunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Interrupts the program once its output matches. */
  readonly endAfter?: RegExp;
}

/** Creates the directory and the harness. */
export async function createCliHarness(): Promise<CliHarness> {
  const root = await mkdtemp(join(tmpdir(), 'cli-'));
  const home = join(root, 'home');
  await mkdir(join(home, '.cache'), { recursive: true, mode: 0o700 });
  return {
    root,
    run: async (args, { input = '', env = {}, cwd = root, endAfter } = {}) => {
      const startMs = performance.now();
      const cli = spawn(process.execPath, [MAIN, ...args], {
        cwd,
        env: { PATH: process.env['PATH'] ?? '', HOME: home, ...env },
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      const texts = [cli.stdout, cli.stderr].map(async (stream) => {
        const chunks: Buffer[] = [];
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          chunks.push(chunk);
          if (endAfter?.test(Buffer.concat(chunks).toString()) === true) cli.kill('SIGINT');
        }
        return Buffer.concat(chunks).toString();
      });
      cli.stdin.on('error', () => undefined); // the program may end before it reads its input
      cli.stdin.end(input);
      const [code] = (await once(cli, 'close')) as [number | null];
      const [out = '', err = ''] = await Promise.all(texts);
      return { code, out, err, tookMs: performance.now() - startMs };
    },
    copy: (files, from, to) => copyTree(files, from, join(root, to)),
    snapshot: () => snapshotOf(root, root),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}

async function copyTree(files: MemoryFiles, from: string, to: string): Promise<void> {
  const found = await files.stat(from);
  if (found?.kind === 'directory') {
    await mkdir(to, { recursive: true, mode: 0o700 });
    for (const name of await files.list(from)) await copyTree(files, join(from, name), join(to, name));
    return;
  }
  await mkdir(dirname(to), { recursive: true });
  await writeFile(to, (await files.read(from, 16 * 1024 * 1024)) ?? '', { mode: found?.mode ?? 0o600 });
}

async function snapshotOf(root: string, directory: string): Promise<Readonly<Record<string, string>>> {
  const all: Record<string, string> = {};
  for (const name of (await readdir(directory)).toSorted()) {
    const path = join(directory, name);
    const shown = relative(root, path);
    if (shown === 'home/.cache') continue;
    const found = await stat(path);
    if (found.isDirectory()) Object.assign(all, { [shown]: '' }, await snapshotOf(root, path));
    else if (found.isFile()) all[shown] = `${found.mode} ${await readFile(path, 'base64')}`;
  }
  return all;
}
