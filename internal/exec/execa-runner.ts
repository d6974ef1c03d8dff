import { execa } from 'execa';
import type { Command, CommandResult, CommandRunner } from './command.ts';
import { ExecError } from './errors.ts';

const MAX_OUTPUT_BYTES = 8 * 1024 * 1024;
const TAIL_CHARACTERS = 2000;
const GRACE_MS = 5000;

/** Runs real programs: SIGTERM on abort, SIGKILL after a grace. */
export class ExecaRunner implements CommandRunner {
  readonly #path: string;

  /** `path` is the PATH of every child that brings no environment of its own. */
  constructor(options: { readonly path: string }) {
    this.#path = options.path;
  }

  async run(command: Command): Promise<CommandResult> {
    command.signal.throwIfAborted();
    const [program, ...args] = command.argv;
    const result = await execa(program, args, {
      env: { PATH: this.#path, ...command.env },
      extendEnv: false,
      cancelSignal: command.signal,
      forceKillAfterDelay: GRACE_MS,
      maxBuffer: MAX_OUTPUT_BYTES,
      reject: false,
      stripFinalNewline: false,
      ...(command.cwd === undefined ? {} : { cwd: command.cwd }),
      ...(command.timeoutMs === undefined ? {} : { timeout: command.timeoutMs }),
      ...(command.input === undefined ? { stdin: 'ignore' as const } : { input: command.input }),
      ...(command.onLine === undefined ? {} : lineListeners(command.onLine)),
    });
    command.signal.throwIfAborted();
    const stdout = asText(result.stdout);
    const stderr = asText(result.stderr);
    const ok = command.okExitCodes ?? [0];
    if (result.exitCode !== undefined && ok.includes(result.exitCode))
      return { exitCode: result.exitCode, stdout, stderr };
    const outputTail = (stderr.trim() === '' ? stdout : stderr).trim().slice(-TAIL_CHARACTERS);
    const what = { argv: command.argv, exitCode: result.exitCode, outputTail };
    if (result.timedOut) throw new ExecError('exec-timeout', what, { cause: result });
    if ('code' in result && result.code === 'ENOENT') throw new ExecError('exec-not-found', what);
    throw new ExecError('exec-failed', what, result.exitCode === undefined ? { cause: result } : {});
  }
}

function asText(output: unknown): string {
  return typeof output === 'string' ? output : '';
}

/** execa takes a generator per stream; ours looks at each line and passes it on. */
function lineListeners(onLine: NonNullable<Command['onLine']>): {
  stdout: (line: unknown) => Generator<unknown>;
  stderr: (line: unknown) => Generator<unknown>;
} {
  const listener = (stream: 'stdout' | 'stderr') =>
    function* (line: unknown): Generator<unknown> {
      onLine(String(line), stream);
      yield line;
    };
  return { stdout: listener('stdout'), stderr: listener('stderr') };
}
