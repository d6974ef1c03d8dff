/** The person or program in front of the CLI. Each message has a code that scripts can rely on. */
export interface Host {
  /** Whether a person can be asked. False in a pipe, with `--no-input` and with `--output json`. */
  readonly interactive: boolean;
  /** Talk: stderr for people, one JSON object on stdout with `--output json`. */
  say(code: string, text: string, data?: Record<string, unknown>): void;
  warn(code: string, text: string, data?: Record<string, unknown>): void;
  /** A phase with its duration; a spinner on a terminal, a line in a pipe. */
  step<T>(code: string, title: string, work: (progress: StepProgress) => Promise<T>): Promise<T>;
  /**
   * The answer of the command, once: `render` on stdout for people, `data` as JSON for programs. `beside` is what programs
   * find beside `data` in that object: a verdict that a script must not have to look for.
   */
  result(data: unknown, render: () => string, beside?: Readonly<Record<string, unknown>>): void;
  /** Asks, or takes the default at once when nobody can be asked. */
  confirm(question: string, defaultAnswer: boolean): Promise<boolean>;
}

export interface StepProgress {
  /** What happens now; with `done` as a share of the whole. */
  readonly update: (
    text: string,
    done?: { readonly of: number; readonly value: number; readonly unit: 'bytes' | 'steps' },
  ) => void;
}
