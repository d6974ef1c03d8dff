import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, rm, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { EXIT_CODES } from '../../internal/errors/index.ts';

const MAIN = join(import.meta.dirname, '../main.ts');
/** Capacity of a pipe on Linux. Output beyond this size could be truncated. */
const PIPE_BYTES = 64 * 1024;

/** Runs the program in a shell pipeline; returns the output of the pipeline and the program's exit code. */
async function inShell(pipeline: string): Promise<{ readonly out: string; readonly code: number }> {
  const script = `"$NODE" "$MAIN" ${pipeline}; echo "exit=\${PIPESTATUS[0]}"`;
  const env = { ...process.env, NODE: process.execPath, MAIN };
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env, maxBuffer: 64 * 1024 * 1024 });
  const [, out = '', code = ''] = /^(.*)exit=(\d+)\n$/s.exec(stdout) ?? [];
  return { out, code: Number(code) };
}

describe('output in a pipe', () => {
  let directory: string;
  const opened: FileHandle[] = [];
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'output-'));
  });
  afterEach(async () => {
    for (const handle of opened.splice(0)) await handle.close();
    await rm(directory, { recursive: true });
  });

  /**
   * Runs the program with a kernel pipe as its output; the test reads the other end. Pipes of Node.js are
   * sockets, which are larger.
   */
  async function intoPipe(...args: readonly string[]) {
    const path = join(directory, 'pipe');
    await promisify(execFile)('mkfifo', [path]);
    const [reader, writer] = await Promise.all([open(path, 'r'), open(path, 'w')]);
    opened.push(reader);
    const cli = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', writer.fd, 'inherit'] });
    const ended = once(cli, 'exit');
    await writer.close();
    return { cli, ended, reader };
  }

  test('is complete when the reader is slow, also as JSON', async () => {
    const { cli, ended, reader } = await intoPipe('help', 'errors', '-o', 'json');
    await delay(2_000); // the program has written what fits into the pipe, and waits
    expect(cli.exitCode).toBeNull();
    const text = await reader.readFile('utf8');
    expect(await ended).toEqual([0, null]);
    expect(text.length).toBeGreaterThan(2 * PIPE_BYTES);
    expect(JSON.parse(text)).toMatchObject({ type: 'result', data: { 'app-usage': { exit: 'usage' } } });
  });

  test('output is complete when another program reads it', async () => {
    const { out, code } = await inShell('help errors -o json | (sleep 1; tail -c 100) | wc -c');
    expect(code).toBe(0);
    expect(out.trim()).toBe('100');
  });

  test('the program exits with a separate exit code and no message if the reader stops before the end', async () => {
    const { out, code } = await inShell('help errors -o json 2>&1 | head -c 100');
    expect(code).toBe(EXIT_CODES.outputClosed.number);
    expect(out).toHaveLength(100);
  });

  test('the program exits with the same code if nothing is read at all', async () => {
    const { code } = await inShell('help exit-codes | true');
    expect(code).toBe(EXIT_CODES.outputClosed.number);
  });

  test('output ends at the first Ctrl-C when the reader has stopped reading', async () => {
    const { cli, ended } = await intoPipe('help', 'errors', '-o', 'json');
    await delay(1_500);
    cli.kill('SIGINT');
    expect(await ended).toEqual([EXIT_CODES.interrupted.number, null]);
  });

  test('lost output is an error with its own code when the disk is full', async () => {
    const { code } = await inShell('help exit-codes > /dev/full');
    expect(code).toBe(EXIT_CODES.diskFull.number);
  });
});
