import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { mkdtemp, open, rm, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const MAIN = join(import.meta.dirname, '../main.ts');
const CTRL_C = '\u0003';

let directory: string;
let hanging: FileHandle | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'interrupt-'));
  // A configuration file that is never readable, as on a dead network share.
  execFileSync('mkfifo', [join(directory, 'cluster.yaml')]);
});
afterEach(async () => {
  await hanging?.close();
  hanging = undefined;
  await rm(directory, { recursive: true });
});

/** Opens the other end of the pipe, which succeeds once the program blocks reading it. */
async function awaitReader(): Promise<FileHandle> {
  for (;;) {
    try {
      return await open(join(directory, 'cluster.yaml'), constants.O_WRONLY | constants.O_NONBLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error;
      await delay(20);
    }
  }
}

function awaitText(terminal: ChildProcess, wanted: string): Promise<void> {
  return new Promise((resolve) => {
    let seen = '';
    terminal.stdout?.on('data', (chunk: Buffer) => {
      seen += chunk.toString();
      if (seen.includes(wanted)) resolve();
    });
  });
}

test('the first Ctrl-C stops the program, and the second one kills it while it hangs', async () => {
  const command = `'${process.execPath}' '${MAIN}' --workspace '${directory}' init`;
  const terminal = spawn('script', ['--quiet', '--return', '--flush', '--command', command, '/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(terminal, 'close');
  hanging = await awaitReader();
  const asked = awaitText(terminal, 'another Ctrl-C ends it immediately');
  terminal.stdin.write(CTRL_C);
  await asked;
  await delay(300);
  expect(terminal.exitCode).toBeNull(); // the program waits for the read that it started
  const secondMs = performance.now();
  terminal.stdin.write(CTRL_C);
  expect(await ended).toEqual([130, null]);
  expect(performance.now() - secondMs).toBeLessThan(5_000);
});

const signals = [
  { signal: 'SIGINT', code: 130 },
  { signal: 'SIGTERM', code: 143 },
] as const;
test.each(signals)(
  'a second $signal kills the program by that signal, exit code $code in a shell',
  async ({ signal }) => {
    const cli = spawn(process.execPath, [MAIN, '--workspace', directory, 'init'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(cli, 'close');
    hanging = await awaitReader();
    const asked = once(cli.stderr, 'data');
    cli.kill(signal);
    expect(String((await asked)[0])).toContain(
      `another ${signal === 'SIGINT' ? 'Ctrl-C' : signal} ends it immediately`,
    );
    cli.kill(signal);
    expect(await ended).toEqual([null, signal]);
  },
);

test('a signal ends a command that makes changes with a line that it can be repeated', async () => {
  const cli = spawn(process.execPath, [MAIN, '--workspace', directory, 'init'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(cli, 'close');
  hanging = await awaitReader();
  let said = '';
  const asked = new Promise<void>((resolve) => {
    cli.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes('ends it immediately')) resolve();
    });
  });
  cli.kill('SIGINT');
  await asked;
  await hanging.close();
  hanging = undefined;
  expect(await ended).toEqual([130, null]);
  expect(said).toContain('interrupted. Run the same command again to continue.');
});

test('a closed terminal stops the program gracefully with its own exit code, even when signaled twice', async () => {
  const cli = spawn(process.execPath, [MAIN, '--workspace', directory, 'init'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(cli, 'close');
  hanging = await awaitReader();
  const asked = once(cli.stderr, 'data');
  cli.kill('SIGHUP');
  await asked;
  cli.kill('SIGHUP');
  await delay(300);
  expect(cli.exitCode).toBeNull(); // the program waits for the read that it started
  await hanging.close();
  hanging = undefined;
  expect(await ended).toEqual([129, null]);
});
