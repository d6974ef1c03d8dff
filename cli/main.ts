#!/usr/bin/env node
import { homedir } from 'node:os';
import { SystemClock } from '../internal/clock/index.ts';
import { EXIT_CODES } from '../internal/errors/index.ts';
import { runApp } from './app/index.ts';
import { Interruption } from './host/index.ts';

const stopping = new AbortController();
const clock = new SystemClock();

/** The first signal asks; the second does not. What runs on nodes is not ours to end. */
function onSignal(exit: Interruption['exit']): void {
  if (stopping.signal.aborted) process.exit(EXIT_CODES[exit].number);
  stopping.abort(new Interruption(exit));
}

process.on('SIGINT', () => onSignal('interrupted'));
process.on('SIGTERM', () => onSignal('terminated'));
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(EXIT_CODES.ok.number); // the reader has seen enough
  });
}

process.exit(
  await runApp({
    args: process.argv.slice(2),
    env: process.env,
    home: homedir(),
    cwd: process.cwd(),
    streams: { in: process.stdin, out: process.stdout, err: process.stderr },
    clock,
    signal: stopping.signal,
    createPorts: async () => {
      const [{ DiskFiles }, { ExecaRunner }] = await Promise.all([
        import('../internal/file/index.ts'),
        import('../internal/exec/index.ts'),
      ]);
      return {
        files: new DiskFiles(),
        commands: new ExecaRunner({ path: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin' }),
        clock,
      };
    },
  }),
);
