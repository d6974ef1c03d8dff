import { formatDuration } from '../../internal/clock/index.ts';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import type inquirer from 'inquirer';
import type { Ora } from 'ora';
import { Secret } from '../../internal/secret/index.ts';
import type { HostFlags, HostOptions, StepProgress } from './host.ts';
import { Interruption } from './interruption.ts';
import { oneMessage, PlainHost } from './plain-host.ts';
import { ProgressMeter } from './progress-meter.ts';

const DEFAULT_COLUMNS = 80;
/** The spinner, a blank, and one column to keep terminals from wrapping. */
const SPINNER_COLUMNS = 3;

type AskPrompt = ReturnType<typeof inquirer.createPromptModule>;

interface ActiveStep {
  readonly title: string;
  readonly startMs: number;
  readonly meter: ProgressMeter;
  detail: string;
}

/**
 * A terminal: a spinner on stderr for the innermost running step; finished steps stay above it with their duration. ora and
 * inquirer are loaded on first use, to keep `--help` fast.
 */
export class TerminalHost extends PlainHost {
  override readonly interactive: boolean;
  readonly #steps: ActiveStep[] = [];
  #spinner: Ora | undefined;

  constructor(flags: Omit<HostFlags, 'events'>, options: HostOptions) {
    super(flags, options);
    this.interactive = flags.input && options.streams.in.isTTY === true;
  }

  override async step<T>(
    _code: string,
    named: string,
    work: (progress: StepProgress) => Promise<T>,
  ): Promise<T> {
    // ora cannot count lines on a terminal without a width: a serial console, or a pty that was never resized.
    if (this.options.streams.err.columns === 0) return super.step(_code, named, work);
    this.#spinner ??= await this.#createSpinner();
    const step: ActiveStep = {
      title: oneMessage(named),
      startMs: this.options.clock.monotonicMs(),
      meter: new ProgressMeter(),
      detail: '',
    };
    this.#steps.push(step);
    this.#show();
    try {
      const value = await work({ update: (text, done) => this.#update(step, text, done) });
      this.#finish(step, this.paint('green', '✔'), '');
      return value;
    } catch (error) {
      if (this.options.signal.aborted) this.#finish(step, this.paint('yellow', '■'), ' (interrupted)');
      else this.#finish(step, this.paint('red', '✖'), '');
      throw error;
    }
  }

  override async confirm(question: string, defaultAnswer: boolean): Promise<boolean> {
    if (!this.interactive) return defaultAnswer;
    return this.#prompt(async (ask) => {
      const asked = {
        type: 'confirm',
        name: 'yes',
        message: oneMessage(question),
        default: defaultAnswer,
      } as const;
      return (await ask([asked])).yes === true;
    });
  }

  override async askSecrets(questions: readonly string[]): Promise<readonly Secret<string>[] | undefined> {
    if (!this.interactive) return undefined;
    const asked = questions.map((question, index) => {
      return {
        type: 'password',
        name: `${index}`,
        message: oneMessage(question),
        toggleMask: false,
      } as const;
    });
    using keyboard = hiddenKeyboard(this.options.streams.in);
    return await this.#prompt(async (ask) => {
      const answers: Readonly<Record<string, unknown>> = await ask(asked);
      return asked.map(({ name }) => new Secret(String(answers[name])));
    }, keyboard.keys);
  }

  override async askLines(question: string, take: (line: string) => boolean): Promise<boolean> {
    if (!this.interactive) return false;
    const { streams, signal } = this.options;
    this.talk(oneMessage(question));
    this.#spinner?.stop();
    // The terminal itself echoes, edits lines and makes Ctrl-C a signal.
    const lines = createInterface({ input: streams.in, terminal: false, signal });
    try {
      for await (const line of lines) if (take(line)) return true;
      signal.throwIfAborted();
      return false;
    } finally {
      lines.close();
      this.#show();
    }
  }

  /** Runs prompts with the spinner stopped. */
  async #prompt<T>(run: (ask: AskPrompt) => Promise<T>, input = this.options.streams.in): Promise<T> {
    const { createPromptModule } = (await import('inquirer')).default;
    const { streams, signal } = this.options;
    this.#spinner?.stop();
    try {
      return await run(createPromptModule({ input, output: streams.err, signal }));
    } catch (error) {
      // The prompt reads the keyboard in raw mode, where Ctrl-C is no signal.
      if (error instanceof Error && error.name === 'ExitPromptError') throw new Interruption('interrupted');
      signal.throwIfAborted();
      throw error;
    } finally {
      this.#show();
    }
  }

  protected override talk(line: string): void {
    this.#spinner?.stop();
    super.talk(line);
    this.#show();
  }

  async #createSpinner(): Promise<Ora> {
    const { default: ora } = await import('ora');
    return ora({
      stream: this.options.streams.err,
      discardStdin: false, // in raw mode Ctrl-C would not be a signal
      indent: 0,
      color: this.paint('red', '') === '' ? false : 'cyan',
    });
  }

  #update(step: ActiveStep, text: string, done?: Parameters<StepProgress['update']>[1]): void {
    const share = done && step.meter.textOf(done, this.options.clock.monotonicMs(), { bar: true });
    // The share comes first: a narrow terminal cuts the end of the line.
    step.detail = [...(share === undefined ? [] : [share]), ...(text === '' ? [] : [oneMessage(text)])].join(
      ', ',
    );
    if (this.#spinner !== undefined && this.#steps.at(-1) === step) this.#spinner.text = this.#line(step);
  }

  #finish(step: ActiveStep, symbol: string, tail: string): void {
    const depth = this.#steps.indexOf(step);
    this.#steps.splice(depth, 1);
    const took = formatDuration(this.options.clock.monotonicMs() - step.startMs);
    this.talk(`${'  '.repeat(depth)}${symbol} ${step.title}${tail} ${this.paint('dim', took)}`);
  }

  #show(): void {
    const step = this.#steps.at(-1);
    if (step === undefined) this.#spinner?.stop();
    else this.#spinner?.start(this.#line(step));
  }

  /** Cut to the width of the terminal: a wrapped line would scroll with each update. */
  #line(step: ActiveStep): string {
    const width = (this.options.streams.err.columns ?? DEFAULT_COLUMNS) - SPINNER_COLUMNS;
    if (step.detail === '') return step.title.slice(0, width);
    const detail = `– ${step.detail.replaceAll('\n', ' ')}`.slice(
      0,
      Math.max(0, width - step.title.length - 1),
    );
    return `${step.title} ${this.paint('dim', detail)}`;
  }
}

/**
 * The keys of a terminal that shows none of them until the end. A prompt by itself hides only what is typed while
 * it is shown, and the terminal would show what is typed between two prompts.
 */
function hiddenKeyboard(terminal: HostOptions['streams']['in']): Disposable & { readonly keys: PassThrough } {
  const hide = (): void => {
    terminal.setRawMode?.(false); // Node ignores a mode that it has already set, and a shell resets it on Ctrl-Z
    terminal.setRawMode?.(true);
  };
  // A prompt sets the mode when it begins, ends and continues after Ctrl-Z.
  const keys = Object.assign(new PassThrough(), { setRawMode: (isRaw: boolean) => isRaw && hide() });
  hide();
  terminal.pipe(keys);
  return {
    keys,
    [Symbol.dispose]: () => {
      terminal.unpipe(keys);
      terminal.pause();
      terminal.setRawMode?.(false);
    },
  };
}
