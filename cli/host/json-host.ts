import { printableJson } from '../../internal/printable/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { AppHost, ErrorReport, HostOptions, StepProgress } from './host.ts';

const PROGRESS_EVERY_MS = 500;
/** Repeats an unchanged progress text this often, to show that the command is still running. */
const SAME_EVERY_MS = 10_000;

/**
 * One JSON object per line on stdout, for programs: `{"time", "type", "code", …}` with `type` one of message, warning,
 * step-started, step-progress, step-finished, step-failed, result, error. Never prompts.
 */
export class JsonHost implements AppHost {
  readonly interactive = false;
  readonly #options: Pick<HostOptions, 'streams' | 'clock'>;

  constructor(options: Pick<HostOptions, 'streams' | 'clock'>) {
    this.#options = options;
  }

  say(code: string, text: string, data?: Record<string, unknown>): void {
    this.#write({ type: 'message', code, text, data });
  }

  warn(code: string, text: string, data?: Record<string, unknown>): void {
    this.#write({ type: 'warning', code, text, data });
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
      this.#write({ type: 'step-progress', code, text, done });
    };
    this.#write({ type: 'step-started', code, title });
    try {
      const value = await work({ update });
      this.#write({ type: 'step-finished', code, title, durationMs: durationMs() });
      return value;
    } catch (error) {
      this.#write({ type: 'step-failed', code, title, durationMs: durationMs() });
      throw error;
    }
  }

  result(data: unknown, _render?: () => string, extra: Readonly<Record<string, unknown>> = {}): void {
    this.#write({ ...extra, type: 'result', data });
  }

  confirm(_question: string, defaultAnswer: boolean): Promise<boolean> {
    return Promise.resolve(defaultAnswer);
  }

  askSecrets(_questions: readonly string[]): Promise<readonly Secret<string>[] | undefined> {
    return Promise.resolve(undefined);
  }

  fail({ stack: _stack, ...report }: ErrorReport): void {
    this.#write({ type: 'error', ...report });
  }

  #write(record: Record<string, unknown>): void {
    const time = new Date(this.#options.clock.nowMs()).toISOString();
    this.#options.streams.out.write(`${printableJson(JSON.stringify({ time, ...record }, plainNumbers))}\n`);
  }
}

/** Converts 64-bit integers to JSON numbers where these are exact, else to strings. */
function plainNumbers(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}
