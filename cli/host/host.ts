import type { Clock } from '../../internal/clock/index.ts';
import type { StepShare } from './format.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { FullScreen, ScreenEvents } from './screen-port.ts';
import type { Listing } from './listing.ts';

/** The interface between a command and its user, who is a person or a program. Each message has a code, which is stable for scripts. */
export interface Host {
  /** Whether prompts are possible. False in a pipe, with `--no-input` and with `--output json`. */
  readonly interactive: boolean;
  /** A message: on stderr for people, as a JSON object with `--output json`. */
  say(code: string, text: string, data?: Record<string, unknown>): void;
  /** A warning, shown in the same way as a message. */
  warn(code: string, text: string, data?: Record<string, unknown>): void;
  /** Runs a step and shows its duration: a spinner on a terminal, lines in a pipe. */
  step<T>(code: string, title: string, work: (progress: StepProgress) => Promise<T>): Promise<T>;
  /**
   * The result of the command, written once to stdout: `render` for people, `data` as JSON for programs.
   * @param extra further top-level members of the JSON object, such as a verdict
   */
  result(data: unknown, render: () => string, extra?: Readonly<Record<string, unknown>>): void;
  /** The result of a command that lists objects: a table, names or the data, as the user asked. */
  list<T>(listing: Listing<T>): void;
  /** Whether the user asked for more columns, with `-o wide`. */
  readonly isWide: boolean;
  /** Whether results are data for programs: with `-o json` and `-o yaml`. */
  readonly wantsData: boolean;
  /**
   * The next result replaces the last one: a terminal is cleared first, and elsewhere a result that is the same as the last
   * one is not written again.
   */
  beginScreen(): void;
  /**
   * Takes the whole terminal, until the result is disposed. undefined unless keyboard and results are a terminal that can be
   * drawn on, and the user wants text.
   */
  openFullScreen(events: ScreenEvents): FullScreen | undefined;
  /**
   * Writes bytes to stdout, for a command whose result is a file; resolves when more may be written. undefined where bytes would do harm:
   * stdout is a terminal, or events go to it. Such a command reports with `say`.
   */
  readonly bytes: ((data: Uint8Array) => Promise<void>) | undefined;
  /** Prompts for yes or no. Returns the default answer when prompts are not possible. */
  confirm(question: string, defaultAnswer: boolean): Promise<boolean>;
  /**
   * Asks for secrets, one after the other, without showing an answer, also when it is typed before its question.
   * Returns undefined when prompts are not possible.
   */
  askSecrets(questions: readonly string[]): Promise<readonly Secret<string>[] | undefined>;
  /**
   * Shows a question and passes on the lines of the answer, also pasted ones, until `take` returns true. Returns whether it did: false when
   * prompts are not possible, or the input ends.
   */
  askLines(question: string, take: (line: string) => boolean): Promise<boolean>;
}

/** Reports the progress of a step. */
export interface StepProgress {
  /** Shows the current activity and, with `done`, the share that is finished. */
  readonly update: (text: string, done?: StepShare) => void;
}

/** A failure of the command, independent of the output format. */
export interface ErrorReport {
  readonly code: string;
  /** Message of the error and its causes: `joining cluster: dialing 192.0.2.8:9090: timed out`. */
  readonly message: string;
  readonly fix: string;
  /** Whether running the same command again can succeed. */
  readonly retryable: boolean;
  readonly exit: ExitName;
  readonly details: Readonly<Record<string, unknown>>;
  /** Stack trace, shown with `--verbose`. */
  readonly stack?: string;
}

/** The host as the app uses it; commands see `Host`. */
export interface AppHost extends Host {
  /** Shows the failure of the command. */
  fail(report: ErrorReport): void;
}

/** How results are written. `wide` and `name` are for lists. */
export const OUTPUT_FORMATS = ['human', 'wide', 'json', 'yaml', 'name'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** Where `-o json` writes messages, warnings and steps. */
export const EVENT_OUTPUTS = ['stdout', 'stderr', 'none'] as const;
export type EventOutput = (typeof EVENT_OUTPUTS)[number];

/** The global flags that choose a host. */
export interface HostFlags {
  readonly output: OutputFormat;
  /** Only for `json`. */
  readonly events: EventOutput;
  /** Whether tables have a header. */
  readonly headers: boolean;
  readonly input: boolean;
  readonly verbose: boolean;
}

/** An output stream of this process. */
export type OutputStream = NodeJS.WritableStream & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** The standard streams. Results go to `out`, messages to `err`. */
export interface Streams {
  readonly in: NodeJS.ReadableStream & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };
  readonly out: OutputStream;
  readonly err: OutputStream;
}

/** The parts of the process that a host uses. */
export interface HostOptions {
  readonly streams: Streams;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Calls `restore` when this process ends in whatever way; returns how to forget it. */
  readonly onExit?: ((restore: () => void) => () => void) | undefined;
}
