import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { kill, pid } from 'node:process';
import { ExecError } from './errors.ts';

/** The ID of this process. */
export const OWN_PID: number = pid;

/** A program that outlives this process, in a session of its own and without standard streams. */
interface DetachedProgram {
  readonly argv: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** A program that uses the standard streams of this process until it ends. */
interface AttachedProgram {
  readonly argv: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Interface (port) to programs that run longer than one call or at the terminal. `CommandRunner` runs all
 * others.
 */
export interface ProcessPort {
  /** Resolves with the process id when the program runs. */
  startDetached(program: DetachedProgram): Promise<number>;
  /** Runs in the foreground and resolves with the exit code; 128 + n when signal n ended it. */
  runAttached(program: AttachedProgram): Promise<number>;
  /** Sends a signal by name or number; false when there is no such process. */
  sendSignal(pid: number, signal: NodeJS.Signals | number): boolean;
}

/** Real processes. */
export class HostProcesses implements ProcessPort {
  readonly #path: string;

  /** `path` is the PATH of every child that has no PATH in its own environment. */
  constructor(options: { readonly path: string }) {
    this.#path = options.path;
  }

  startDetached(program: DetachedProgram): Promise<number> {
    const [file, ...args] = program.argv;
    return new Promise((resolve, reject) => {
      const child = spawn(file, args, {
        detached: true,
        stdio: 'ignore',
        env: { PATH: this.#path, ...program.env },
        ...(program.cwd === undefined ? {} : { cwd: program.cwd }),
      });
      child.once('error', (cause) => reject(notStarted(program.argv, cause)));
      child.once('spawn', () => {
        child.unref();
        if (child.pid !== undefined) resolve(child.pid);
      });
    });
  }

  runAttached(program: AttachedProgram): Promise<number> {
    const [file, ...args] = program.argv;
    return new Promise((resolve, reject) => {
      const child = spawn(file, args, {
        stdio: 'inherit',
        env: { PATH: this.#path, ...program.env },
        signal: program.signal,
      });
      child.once('error', (cause) =>
        reject(program.signal.aborted ? (program.signal.reason as Error) : notStarted(program.argv, cause)),
      );
      child.once('exit', (code, signal) => resolve(code ?? 128 + signalNumber(signal)));
    });
  }

  sendSignal(pid: number, signal: NodeJS.Signals | number): boolean {
    try {
      return kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
      throw error;
    }
  }
}

function notStarted(argv: readonly string[], cause: unknown): ExecError {
  const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
  return new ExecError(missing ? 'exec-not-found' : 'exec-failed', { argv, outputTail: '' }, { cause });
}

/** The number that a shell adds to 128. */
function signalNumber(signal: NodeJS.Signals | null): number {
  return signal === null ? 0 : constants.signals[signal];
}
