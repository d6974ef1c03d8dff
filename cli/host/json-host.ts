import { printableJson } from '../../internal/printable/index.ts';
import { byteOutput } from './byte-output.ts';
import type { AppHost, ErrorReport, EventOutput, HostOptions, OutputStream, StepProgress } from './host.ts';
import type { Listing } from './listing.ts';
import { NoPrompts } from './no-prompts.ts';
import { forPrograms, Screen } from './screen.ts';

const PROGRESS_EVERY_MS = 500;
/** Repeats an unchanged progress text this often, to show that the command is still running. */
const SAME_EVERY_MS = 10_000;

/**
 * One JSON object per line, for programs: `{"time", "type", "code", …}`. stdout has one object of type result or error
 * (with --watch, one for each change). Events (message, warning, step-started, step-progress, step-finished,
 * step-failed) are on stderr unless the user chose otherwise. Never prompts.
 */
export class JsonHost extends NoPrompts implements AppHost {
  readonly interactive = false;
  readonly isWide = true;
  readonly wantsData = true;
  readonly bytes: AppHost['bytes'];
  readonly #options: Pick<HostOptions, 'streams' | 'clock'>;
  readonly #events: EventOutput;
  readonly #screen: Screen;

  constructor(flags: { readonly events: EventOutput }, options: Pick<HostOptions, 'streams' | 'clock'>) {
    super();
    this.#options = options;
    this.#events = flags.events;
    this.#screen = new Screen();
    this.bytes = flags.events === 'stdout' ? undefined : byteOutput(options.streams.out);
  }

  say(code: string, text: string, data?: Record<string, unknown>): void {
    this.#event({ type: 'message', code, text, data });
  }

  warn(code: string, text: string, data?: Record<string, unknown>): void {
    this.#event({ type: 'warning', code, text, data });
  }

  async step<T>(code: string, title: string, work: (progress: StepProgress) => Promise<T>): Promise<T> {
    const { clock } = this.#options;
    const startMs = clock.monotonicMs();
    const durationMs = (): number => Math.round(clock.monotonicMs() - startMs);
    let lastMs = -Infinity;
    let lastText: string | undefined;
    const update: StepProgress['update'] = (text, done) => {
      const sinceMs = clock.monotonicMs() - lastMs;
      if (sinceMs < PROGRESS_EVERY_MS) return;
      if (done === undefined && text === lastText && sinceMs < SAME_EVERY_MS) return;
      [lastMs, lastText] = [clock.monotonicMs(), text];
      this.#event({ type: 'step-progress', code, text, done });
    };
    this.#event({ type: 'step-started', code, title });
    try {
      const value = await work({ update });
      this.#event({ type: 'step-finished', code, title, durationMs: durationMs() });
      return value;
    } catch (error) {
      this.#event({ type: 'step-failed', code, title, durationMs: durationMs() });
      throw error;
    }
  }

  result(data: unknown, _render?: () => string, extra: Readonly<Record<string, unknown>> = {}): void {
    if (this.#screen.isNew(JSON.stringify([data, extra], forPrograms)))
      this.#write(this.#options.streams.out, { ...extra, type: 'result', data });
  }

  list<T>({ data }: Listing<T>): void {
    this.result(data);
  }

  beginScreen(): void {
    this.#screen.begin();
  }

  openFullScreen(): undefined {
    return undefined;
  }

  fail({ stack: _stack, ...report }: ErrorReport): void {
    this.#write(this.#options.streams.out, { type: 'error', ...report });
  }

  #event(record: Record<string, unknown>): void {
    const { out, err } = this.#options.streams;
    if (this.#events !== 'none') this.#write(this.#events === 'stdout' ? out : err, record);
  }

  #write(stream: OutputStream, record: Record<string, unknown>): void {
    const time = new Date(this.#options.clock.nowMs()).toISOString();
    stream.write(`${printableJson(JSON.stringify({ time, ...record }, forPrograms))}\n`);
  }
}
