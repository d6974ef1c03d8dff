import { SystemClock, type Clock } from '../clock/index.ts';
import { describeError, EXIT_CODES, findCoded, isAbort } from '../errors/index.ts';
import { createLogger, ignoreOutputErrors, lineSink, type Logger } from '../logging/index.ts';

/** The clock, the logger and the signal that `runProgram()` gives to a program. */
export interface ProgramScope {
  readonly clock: Clock;
  /** JSON lines on standard output. */
  readonly log: Logger;
  /** Fires at SIGTERM and SIGINT. */
  readonly signal: AbortSignal;
}

/**
 * Runs a service that is a process of its own until its signal fires. If it fails, the error is logged and sets the exit code.
 * @param name path of the program's log
 */
export async function runProgram(
  process: Pick<NodeJS.Process, 'stdout' | 'stderr' | 'once' | 'exitCode'>,
  name: string,
  run: (scope: ProgramScope) => Promise<void>,
): Promise<void> {
  const clock = new SystemClock();
  ignoreOutputErrors(process.stderr); // Node.js writes its warnings to stderr
  const log = createLogger({ path: name, nowMs: () => clock.nowMs(), sink: lineSink(process.stdout) });
  const stop = new AbortController();
  for (const each of ['SIGTERM', 'SIGINT'] as const) process.once(each, () => stop.abort(new Error(each)));
  try {
    await run({ clock, log, signal: stop.signal });
  } catch (error) {
    if (isAbort(error, stop.signal)) return;
    const { code, exit = 'internal' } = findCoded(error) ?? {};
    log.error('stopping', { error: describeError(error), code });
    process.exitCode = EXIT_CODES[exit].number;
  }
}
