/** One run of one program. No shell, no inherited environment. */
export interface Command {
  /** Program and arguments. Never a secret: arguments are visible to every user of the machine. */
  readonly argv: readonly [string, ...string[]];
  /** The whole environment of the child; PATH alone unless said. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Standard input; empty unless said. */
  readonly input?: string | Uint8Array;
  /** Each line of stdout and stderr as it comes. What it throws becomes the failure of the run, at its end. */
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void;
  readonly timeoutMs?: number;
  /** Exit codes that are an answer and not a failure; [0] unless said. */
  readonly okExitCodes?: readonly number[];
  readonly signal: AbortSignal;
}

export interface CommandResult {
  readonly exitCode: number;
  /** At most 8 Mi characters; the rest is cut. */
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Programs as a port. Rejects with an `ExecError`, or with the signal's reason when it fired; not before the
 * program has ended. Programs that it left behind in the background are not waited for.
 */
export interface CommandRunner {
  run(command: Command): Promise<CommandResult>;
}
