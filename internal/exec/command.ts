/** One run of one program, without a shell and without the environment of this process. */
export interface Command {
  /** Program and arguments. Never a secret: all users of the machine can see arguments. */
  readonly argv: readonly [string, ...string[]];
  /** The whole environment of the child; default: PATH only. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Standard input; default: empty. */
  readonly input?: string | Uint8Array;
  /** Called for each line of stdout and stderr. An error that it throws is thrown by `run` after the program has ended. */
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void;
  /** Whether only `onLine` gets the output: neither the result nor an error has any of it, and no copy is kept; default: false. */
  readonly isOutputSecret?: boolean;
  readonly timeoutMs?: number;
  /** Exit codes that are not a failure; default: [0]. */
  readonly okExitCodes?: readonly number[];
  readonly signal: AbortSignal;
}

/** The result of a program that has ended with an accepted exit code. */
export interface CommandResult {
  readonly exitCode: number;
  /** The first 8 Mi characters; empty if the output is secret. */
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Interface (port) that runs programs. Rejects with an `ExecError`, or with the reason of the signal, after the program has
 * ended. Does not wait for background processes of the program.
 */
export interface CommandRunner {
  run(command: Command): Promise<CommandResult>;
}
