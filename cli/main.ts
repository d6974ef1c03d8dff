#!/usr/bin/env node
import { readyAnswer } from './answers/index.ts';

const args = process.argv.slice(2);
const answer = readyAnswer(args);
if (answer === undefined) process.exit(await runProgram());
else printAnswer(answer);

/** Prints a prebuilt answer. The exit codes are those of EXIT_CODES, which is not loaded here. */
function printAnswer(text: string): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    process.exitCode = { EPIPE: 141, EIO: 141, ENOSPC: 20 }[error.code ?? ''] ?? 21;
    if (process.exitCode !== 141) process.stderr.write(`error: writing output: ${error.message}\n`);
  });
  process.stderr.on('error', () => undefined);
  process.stdout.write(text);
}

/** Loads the rest of the program, which a prebuilt answer does not need. */
async function runProgram(): Promise<number> {
  await keepCompiled();
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
  // The first signal stops the command gracefully, the second one kills it. Work on nodes continues.
  const onSignal = (signal: 'SIGINT' | 'SIGTERM', exit: 'interrupted' | 'terminated'): void => {
    if (stopping.signal.aborted) endBy(signal, EXIT_CODES[exit].number);
    else stopping.abort(new Interruption(exit));
  };
  process.on('SIGINT', () => onSignal('SIGINT', 'interrupted'));
  process.on('SIGTERM', () => onSignal('SIGTERM', 'terminated'));
  // Sent when the terminal is closed.
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
    onExit: (restore) => {
      process.on('exit', restore);
      return () => process.off('exit', restore);
    },
    readDescriptor: async (descriptor, options) =>
      (await import('../internal/file/index.ts')).readDescriptor(descriptor, options),
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

/** Keeps compiled code for the next start: compiling takes most of the time of a short command. */
async function keepCompiled(): Promise<void> {
  const { XDG_CACHE_HOME: wanted = '', HOME: home = '' } = process.env;
  const cacheHome = wanted.startsWith('/') ? wanted : `${home}/.cache`;
  const uid = process.geteuid?.();
  if (uid === undefined || !cacheHome.startsWith('/')) return;
  (await import('../internal/file/index.ts')).keepCompiledCode({ cacheHome, uid });
}

/**
 * Ends this process with the signal itself: `process.exit` would wait for file operations, which can hang on
 * a dead network share.
 */
function endBy(signal: 'SIGINT' | 'SIGTERM', code: number): void {
  process.emit('exit', code); // makes the spinner restore the cursor
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
