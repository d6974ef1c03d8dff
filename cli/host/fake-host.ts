import { Secret } from '../../internal/secret/index.ts';
import type { FullScreen, ScreenEvents } from './screen-port.ts';
import { renderListing, type Listing } from './listing.ts';
import type { AppHost, ErrorReport, StepProgress } from './host.ts';

/** One call of the host. */
export type HostRecord =
  | { readonly kind: 'say' | 'warn'; readonly code: string; readonly text: string; readonly data?: unknown }
  | { readonly kind: 'step'; readonly code: string; readonly outcome: 'running' | 'done' | 'failed' }
  | {
      readonly kind: 'result';
      readonly data: unknown;
      readonly text: string;
      readonly extra?: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: 'confirm'; readonly question: string; readonly answer: boolean }
  | { readonly kind: 'ask-secret' | 'ask-lines'; readonly question: string }
  | { readonly kind: 'fail'; readonly report: ErrorReport };

/** A host for tests that records every call. Prompts return their default, unless `answer` is given. */
export class RecordingHost implements AppHost {
  readonly interactive: boolean;
  readonly isWide: boolean;
  readonly wantsData: boolean;
  /** What was written to standard output as bytes; undefined makes it a terminal. */
  written: Uint8Array[] | undefined = [];
  readonly records: HostRecord[] = [];
  /** Progress texts of all steps. */
  readonly updates: string[] = [];
  readonly #answer: ((question: string) => boolean) | undefined;

  readonly #secrets: string[];
  readonly #lines: readonly string[];

  /** @param options.secrets answers of `askSecrets()`, in order; none: prompts are not possible */
  constructor(
    options: {
      readonly answer?: (question: string) => boolean;
      readonly secrets?: readonly string[];
      /** Lines of the answer to `askLines()`, after which the input ends. */
      readonly lines?: readonly string[];
      readonly isWide?: boolean;
      readonly wantsData?: boolean;
    } = {},
  ) {
    this.#answer = options.answer;
    this.#secrets = [...(options.secrets ?? [])];
    this.#lines = options.lines ?? [];
    this.interactive = options.answer !== undefined;
    this.isWide = options.isWide === true;
    this.wantsData = options.wantsData === true;
  }

  get bytes(): AppHost['bytes'] {
    const { written } = this;
    return written && (async (data) => void written.push(Uint8Array.from(data)));
  }

  /** The codes of all messages and finished steps, in order. */
  get codes(): readonly string[] {
    return this.records.flatMap((record) => ('code' in record ? [record.code] : []));
  }

  /** The data of the result; undefined until there is one. */
  get answered(): unknown {
    return this.records.find((record) => record.kind === 'result')?.data;
  }

  say(code: string, text: string, data?: Record<string, unknown>): void {
    this.records.push({ kind: 'say', code, text, data });
  }

  warn(code: string, text: string, data?: Record<string, unknown>): void {
    this.records.push({ kind: 'warn', code, text, data });
  }

  async step<T>(code: string, _title: string, work: (progress: StepProgress) => Promise<T>): Promise<T> {
    const at = this.records.push({ kind: 'step', code, outcome: 'running' }) - 1;
    try {
      const value = await work({ update: (text) => void this.updates.push(text) });
      this.records[at] = { kind: 'step', code, outcome: 'done' };
      return value;
    } catch (error) {
      this.records[at] = { kind: 'step', code, outcome: 'failed' };
      throw error;
    }
  }

  result(data: unknown, render: () => string, extra?: Readonly<Record<string, unknown>>): void {
    const more = extra === undefined ? {} : { extra };
    this.records.push({ kind: 'result', data, text: render(), ...more });
  }

  list<T>(listing: Listing<T>): void {
    this.result(listing.data, () => renderListing(listing, { format: 'table', headers: true }));
  }

  beginScreen(): void {
    // every result is recorded
  }

  /** The screen that commands get; undefined: the host is no terminal. */
  fullScreen: ((events: ScreenEvents) => FullScreen) | undefined;

  openFullScreen(events: ScreenEvents): FullScreen | undefined {
    return this.fullScreen?.(events);
  }

  confirm(question: string, defaultAnswer: boolean): Promise<boolean> {
    const answer = this.#answer?.(question) ?? defaultAnswer;
    this.records.push({ kind: 'confirm', question, answer });
    return Promise.resolve(answer);
  }

  askSecrets(questions: readonly string[]): Promise<readonly Secret<string>[] | undefined> {
    for (const question of questions) this.records.push({ kind: 'ask-secret', question });
    const answers = this.#secrets.splice(0, questions.length).map((answer) => new Secret(answer));
    return Promise.resolve(answers.length === questions.length ? answers : undefined);
  }

  askLines(question: string, take: (line: string) => boolean): Promise<boolean> {
    this.records.push({ kind: 'ask-lines', question });
    return Promise.resolve(this.#lines.some(take));
  }

  fail(report: ErrorReport): void {
    this.records.push({ kind: 'fail', report });
  }
}
