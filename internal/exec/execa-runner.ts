import { execa } from 'execa';
import { SystemClock } from '../clock/index.ts';
import type { Command, CommandResult, CommandRunner } from './command.ts';
import { ExecError } from './errors.ts';
import { CapturedOutput } from './captured-output.ts';

const GRACE_MS = 5000;
/** How long to wait for output after the program itself has ended. */
const DRAIN_MS = 500;

/** Runs real programs, each in a process group of its own. On abort, the group gets SIGTERM and after a grace period SIGKILL. */
export class ExecaRunner implements CommandRunner {
  readonly #path: string;

  /** `path` is the PATH of every child that has no PATH in its own environment. */
  constructor(options: { readonly path: string }) {
    this.#path = options.path;
  }

  async run(command: Command): Promise<CommandResult> {
    command.signal.throwIfAborted();
    const [program, ...args] = command.argv;
    const subprocess = execa(program, args, {
      env: { PATH: this.#path, ...command.env },
      extendEnv: false,
      cancelSignal: command.signal,
      killDescendants: true,
      forceKillAfterDelay: GRACE_MS,
      buffer: false,
      reject: false,
      ...(command.cwd === undefined ? {} : { cwd: command.cwd }),
      ...(command.timeoutMs === undefined ? {} : { timeout: command.timeoutMs }),
      ...(command.input === undefined ? { stdin: 'ignore' as const } : { input: command.input }),
    });
    const listener = new LineListener(command.onLine);
    const capture = (stream: 'stdout' | 'stderr'): CapturedOutput =>
      new CapturedOutput(subprocess[stream], {
        isSecret: command.isOutputSecret === true,
        onLine: (line) => listener.onLine(line, stream),
      });
    const [stdout, stderr] = [capture('stdout'), capture('stderr')];
    // A background process may keep the output open forever, so only the end of the program itself is
    // awaited.
    const ended = new AbortController();
    subprocess.nodeChildProcess.once('exit', () => {
      void drained(ended.signal).then(() =>
        [subprocess.stdout, subprocess.stderr].forEach((each) => each.destroy()),
      );
    });
    const result = await subprocess;
    ended.abort();
    for (const output of [stdout, stderr]) output.end();
    command.signal.throwIfAborted();
    listener.throwIfFailed();
    const okExitCodes = command.okExitCodes ?? [0];
    if (result.exitCode !== undefined && okExitCodes.includes(result.exitCode)) {
      return { exitCode: result.exitCode, stdout: stdout.text, stderr: stderr.text };
    }
    throw failure(command, result, stderr.tail === '' ? stdout.tail : stderr.tail);
  }
}

/**
 * Catches errors of the caller's listener. An error that is thrown inside a stream would end this process.
 */
class LineListener {
  readonly #onLine: Command['onLine'];
  readonly #errors: unknown[] = [];

  constructor(onLine: Command['onLine']) {
    this.#onLine = onLine;
  }

  onLine(line: string, stream: 'stdout' | 'stderr'): void {
    try {
      if (this.#errors.length === 0) this.#onLine?.(line, stream);
    } catch (error) {
      this.#errors.push(error);
    }
  }

  throwIfFailed(): void {
    if (this.#errors.length > 0) throw this.#errors[0];
  }
}

/** Resolves when all outputs have ended, or after DRAIN_MS. */
async function drained(ended: AbortSignal): Promise<void> {
  await Promise.allSettled([new SystemClock().sleep(DRAIN_MS, ended)]);
}

/** The part of execa's result that describes a failure. */
interface Ended {
  readonly exitCode?: number | undefined;
  readonly timedOut: boolean;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
}

/** strerror(3) of ENOSPC and EDQUOT. In another language than English the code stays `exec-failed`. */
const NO_SPACE = /no space left on device|disk quota exceeded/i;

function failure(command: Command, result: Ended, outputTail: string): ExecError {
  const what = { argv: command.argv, exitCode: result.exitCode, outputTail };
  if (result.timedOut) return new ExecError('exec-timeout', what, { cause: result });
  if (NO_SPACE.test(outputTail)) return new ExecError('exec-no-space', what);
  if (result.code !== 'ENOENT') {
    return new ExecError('exec-failed', what, result.exitCode === undefined ? { cause: result } : {});
  }
  // ENOENT means a missing program or a missing working directory.
  const isDirectoryMissing =
    command.cwd !== undefined && result.message?.includes('"cwd" option is invalid') === true;
  if (!isDirectoryMissing) return new ExecError('exec-not-found', what);
  return new ExecError('exec-failed', {
    ...what,
    outputTail: `working directory ${command.cwd} does not exist`,
  });
}
