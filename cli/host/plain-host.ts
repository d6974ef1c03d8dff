import { printableJson, printableLines } from '../../internal/printable/index.ts';
import { formatDuration } from '../../internal/clock/index.ts';
import { byteOutput } from './byte-output.ts';
import { openFullScreen } from './full-screen.ts';
import { ProgressMeter } from './progress-meter.ts';
import type { AppHost, ErrorReport, HostFlags, HostOptions, StepProgress } from './host.ts';
import { renderListing, type Listing } from './listing.ts';
import { NoPrompts } from './no-prompts.ts';
import { createPaint, renderError, type Paint } from './paint.ts';
import type { FullScreen, ScreenEvents } from './screen-port.ts';
import { plainData, Screen } from './screen.ts';
import { renderYaml } from './yaml.ts';

/** Shows that a long step is alive without flooding the log. */
const PROGRESS_EVERY_MS = 10_000;

/** Plain lines, for a pipe or a log file: no animation, no prompts. */
export class PlainHost extends NoPrompts implements AppHost {
  readonly interactive: boolean = false;
  protected readonly options: HostOptions;
  protected readonly paint: Paint;
  readonly isWide: boolean;
  readonly wantsData: boolean;
  readonly bytes: AppHost['bytes'];
  readonly #flags: Pick<HostFlags, 'verbose' | 'output' | 'headers'>;
  readonly #screen: Screen;
  /** The step that wrote the last line; its title is repeated only after other lines. */
  #lastStep: string | undefined;

  constructor(flags: Pick<HostFlags, 'verbose' | 'output' | 'headers'>, options: HostOptions) {
    super();
    this.#flags = flags;
    this.isWide = flags.output === 'wide';
    this.wantsData = flags.output === 'yaml';
    this.#screen = new Screen(options.streams.out);
    this.options = options;
    this.bytes = byteOutput(options.streams.out);
    this.paint = createPaint(options.streams.err, options.env);
  }

  say(code: string, text: string, data?: Record<string, unknown>): void {
    this.talk(`${oneMessage(text)}${this.#verboseTail(code, data)}`);
  }

  warn(code: string, text: string, data?: Record<string, unknown>): void {
    this.talk(`${this.paint('yellow', 'warning:')} ${oneMessage(text)}${this.#verboseTail(code, data)}`);
  }

  async step<T>(_code: string, named: string, work: (progress: StepProgress) => Promise<T>): Promise<T> {
    const { clock } = this.options;
    const title = oneMessage(named);
    const startMs = clock.monotonicMs();
    const meter = new ProgressMeter();
    let lastMs = startMs;
    this.talk(`${title} …`);
    this.#lastStep = title;
    const update: StepProgress['update'] = (text, done) => {
      const nowMs = clock.monotonicMs();
      const share = done === undefined ? '' : ` (${meter.textOf(done, nowMs, { bar: false })})`;
      if (nowMs - lastMs < PROGRESS_EVERY_MS) return;
      lastMs = nowMs;
      const who = this.#lastStep === title ? '' : `${title}: `;
      this.talk(`  ${who}${`${oneMessage(text)}${share}`.trimStart()}`);
      this.#lastStep = title;
    };
    try {
      const value = await work({ update });
      this.talk(`${title}: done in ${formatDuration(clock.monotonicMs() - startMs)}`);
      return value;
    } catch (error) {
      this.talk(`${title}: stopped after ${formatDuration(clock.monotonicMs() - startMs)}`);
      throw error;
    }
  }

  result(data: unknown, render: () => string, _extra?: Readonly<Record<string, unknown>>): void {
    this.#write(this.#flags.output === 'yaml' ? renderYaml(plainData(data)) : render());
  }

  list<T>(listing: Listing<T>): void {
    const { output, headers } = this.#flags;
    if (output === 'yaml') return this.#write(renderYaml(plainData(listing.data)));
    const format = output === 'name' || output === 'wide' ? output : 'table';
    const text = renderListing(listing, { format, headers });
    // An empty list without a header writes no line at all, because programs count lines.
    if (text !== '' || (headers && format !== 'name')) this.#write(text);
  }

  beginScreen(): void {
    this.#screen.begin();
  }

  openFullScreen(events: ScreenEvents): FullScreen | undefined {
    const wanted = this.#flags.output === 'human' || this.#flags.output === 'wide';
    return wanted ? openFullScreen(this.options, events) : undefined;
  }

  fail(report: ErrorReport): void {
    this.talk(renderError(cleanReport(report), this.#flags.verbose, this.paint));
  }

  protected talk(line: string): void {
    this.#lastStep = undefined;
    this.options.streams.err.write(`${line}\n`);
  }

  #write(text: string): void {
    const shown = clean(text);
    if (this.#screen.isNew(shown)) this.options.streams.out.write(`${shown}\n`);
  }

  #verboseTail(code: string, data: Record<string, unknown> | undefined): string {
    if (!this.#flags.verbose) return '';
    const tail = data === undefined ? '' : ` ${printableJson(JSON.stringify(data))}`;
    return this.paint('dim', ` [${code}]${tail}`);
  }
}

/**
 * Removes control characters from everything that is written, in case a view did not: texts of nodes or pods must not control
 * the terminal. Colors are added afterwards.
 */
function clean(text: string): string {
  return printableLines(text, { maxChars: Infinity });
}

/**
 * The text of one message. Further lines are indented, so that no text of others looks like a line of this program; lines that are
 * indented already stay as they are.
 */
export function oneMessage(text: string): string {
  return clean(text).replace(/\n(?! )/g, '\n  ');
}

function cleanReport(report: ErrorReport): ErrorReport {
  const { message, fix, stack } = report;
  return {
    ...report,
    message: clean(message),
    fix: clean(fix),
    ...(stack === undefined ? {} : { stack: clean(stack) }),
  };
}
