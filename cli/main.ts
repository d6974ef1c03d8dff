#!/usr/bin/env node
import { readyAnswer } from './answers/index.ts';

const args = process.argv.slice(2);
const answer = readyAnswer(args);
if (answer === undefined) process.exit(await runProgram());
else printAnswer(answer);

/** The program ends when all of it is written: nothing else keeps it alive. Numbers as in EXIT_CODES, which are not loaded. */
function printAnswer(text: string): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    process.exitCode = { EPIPE: 141, EIO: 141, ENOSPC: 20 }[error.code ?? ''] ?? 21;
    if (process.exitCode !== 141) process.stderr.write(`error: writing the output: ${error.message}\n`);
  });
  process.stderr.on('error', () => undefined);
  process.stdout.write(text);
}

/** Everything else is loaded here: an answer that is ready must not pay for it. */
async function runProgram(): Promise<number> {
  const [{ homedir }, { SystemClock }, { EXIT_CODES }, { runApp }, { Interruption, StandardOutput }] =
    await Promise.all([
      import('node:os'),
      import('../internal/clock/index.ts'),
      import('../internal/errors/index.ts'),
      import('./app/index.ts'),
      import('./host/index.ts'),
    ]);
  const clock = new SystemClock();
  const stopping = new AbortController();
  const streams = { in: process.stdin, out: process.stdout, err: process.stderr };
  // The first signal asks; the second does not. What runs on nodes is not ours to end.
  const onSignal = (signal: 'SIGINT' | 'SIGTERM', exit: 'interrupted' | 'terminated'): void => {
    if (stopping.signal.aborted) endBy(signal, EXIT_CODES[exit].number);
    else stopping.abort(new Interruption(exit));
  };
  process.on('SIGINT', () => onSignal('SIGINT', 'interrupted'));
  process.on('SIGTERM', () => onSignal('SIGTERM', 'terminated'));
  // The kernel and the shell both say that the terminal was closed.
  process.on('SIGHUP', () => stopping.abort(new Interruption('hungUp')));
  return runApp({
    args,
    env: process.env,
    home: homedir(),
    cwd: process.cwd(),
    streams,
    output: new StandardOutput(streams),
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
  });
}

/** At once, by the signal itself: `process.exit` waits for file operations, and on a dead share those hang. */
function endBy(signal: 'SIGINT' | 'SIGTERM', code: number): void {
  process.emit('exit', code); // the spinner gives the cursor back
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
