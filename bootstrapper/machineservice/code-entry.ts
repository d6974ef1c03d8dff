import type { Clock } from '../../internal/clock/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort, KernelFilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { decodeTyped, type ConsoleChallenge } from '../../internal/statedisk/index.ts';
import { MachineServiceError } from './errors.ts';

/** The consoles of the kernel; the last one is /dev/console. */
const ACTIVE_CONSOLES = '/sys/class/tty/console/active';
/** Asks for logins. Two programs that read one console would each get a part of what is typed. */
const LOGIN_PROGRAM = '/usr/sbin/agetty';
const COMMAND_MS = 10_000;
/** The most that a terminal gives in one read: a line (N_TTY_BUF_SIZE of Linux). */
const LINE_BYTES = 4096;
/** Between two lines, and before a console is read again that could not be read. */
const PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
const PROMPT = 'Type the code and press Enter; Enter alone shows the challenge again.\n';

/** Where a person enters the code for a locked disk. */
export interface CodeSources {
  /** Consoles, or one named pipe into which root writes the code. */
  readonly paths: readonly string[];
  readonly areConsoles: boolean;
}

/** Options of `readCodes()`. */
export interface CodeEntryOptions {
  readonly commands: CommandRunner;
  readonly clock: Clock;
  readonly log: Logger;
  readonly sources: CodeSources;
  /** What a console shows at first and after an empty line. */
  readonly text: string;
  /** Opens the disk. @returns how many more owners must give a code; 0 if the disk is open. @throws CodedError: nothing was changed */
  open(code: Secret<string>): Promise<number>;
  /** Fires when no more codes are needed. */
  readonly until: AbortSignal;
  readonly signal: AbortSignal;
}

/**
 * All consoles of a machine that asks nobody for a login, as an image does; on other machines a named pipe, which only root can write.
 * @param pipe path at which the pipe is created
 */
export async function findCodeSources(
  ports: {
    readonly files: FilePort;
    readonly kernel: Pick<KernelFilePort, 'readAttribute'>;
    readonly commands: CommandRunner;
  },
  pipe: string,
  signal: AbortSignal,
): Promise<CodeSources> {
  const active = await ports.kernel.readAttribute(ACTIVE_CONSOLES, 4096).catch(() => new Uint8Array());
  const names =
    Buffer.from(active)
      .toString('latin1')
      .match(/[A-Za-z]+[0-9]+/g) ?? [];
  const hasLogins = (await ports.files.stat(LOGIN_PROGRAM)) !== undefined;
  if (!hasLogins && names.length > 0)
    return { paths: names.map((name) => `/dev/${name}`), areConsoles: true };
  await ports.files.remove(pipe);
  await ports.commands.run({ argv: ['mkfifo', '--mode=0600', '--', pipe], timeoutMs: COMMAND_MS, signal });
  return { paths: [pipe], areConsoles: false };
}

/**
 * Reads codes from the sources until `until` fires. One code is tried at a time, and after a refused one its console waits, while the others are read. A line
 * that comes too early is not read, which its console says once a wait. A line is neither logged nor kept. Never rejects.
 */
export async function readCodes(options: CodeEntryOptions): Promise<void> {
  const shared: Shared = { trying: undefined, refused: 0 };
  const read = async (path: string): Promise<void> => {
    const entry = new EntryConsole(options, path, shared);
    entry.show(options.text);
    await Promise.allSettled([readLines(options, path, (line) => entry.take(line))]);
    await entry.settled();
  };
  await Promise.all(options.sources.paths.map(read));
}

async function readLines(
  { commands, clock, log, until }: CodeEntryOptions,
  path: string,
  take: (line: string) => void,
): Promise<never> {
  for (;;) {
    // dd(1) gives back the console when it is killed. A read of this process would block a thread for good. `noctty`: the kernel hangs up the
    // controlling terminal of a program that ends (a serial line, not a pseudoterminal), which then loses what it has not shown yet.
    const argv = ['dd', `if=${path}`, 'iflag=noctty', `bs=${LINE_BYTES}`, 'status=none'] as const;
    const onLine = (line: string, stream: string): void => void (stream === 'stdout' && take(line));
    const reading = commands.run({ argv, onLine, isOutputSecret: true, signal: until });
    await reading.catch((error: unknown) => {
      until.throwIfAborted();
      log.warn('console not readable', { path, error: describeError(error) });
    });
    await clock.sleep(PAUSE_MS, until);
  }
}

/** A time in which lines are not read. */
interface Wait {
  /** Monotonic; undefined: as soon as a code has been tried. */
  readonly endsMs: number | undefined;
}

/** What all consoles share. */
interface Shared {
  /** Set while a code is tried, and from the right one on. */
  trying: Wait | undefined;
  /** Refused codes. Each one makes the next wait of every console longer, so two consoles give at most twice the tries. */
  refused: number;
}

/** Answers the lines of one console. */
class EntryConsole {
  readonly #options: CodeEntryOptions;
  readonly #path: string;
  readonly #shared: Shared;
  /** Set between a line and the next one. */
  #wait: Wait | undefined;
  /** The last wait that the console was told about. */
  #told: Wait | undefined;
  #answered: Promise<void> = Promise.resolve();
  #shown: Promise<void> = Promise.resolve();

  constructor(options: CodeEntryOptions, path: string, shared: Shared) {
    this.#options = options;
    this.#path = path;
    this.#shared = shared;
  }

  take(line: string): void {
    const wait = this.#wait ?? this.#shared.trying;
    if (wait !== undefined) this.#drop(wait);
    else this.#answered = this.#answer(new Secret(line.trim())).catch(() => undefined); // `until` has fired
  }

  /** Shows a text after the earlier ones. A named pipe shows none. */
  show(text: string): void {
    const { commands, log, sources, signal } = this.#options;
    const path = this.#path;
    const write = async (): Promise<void> => {
      await commands
        .run({ argv: ['tee', '--', path], input: text, timeoutMs: COMMAND_MS, signal })
        .catch((error: unknown) => log.debug('console not writable', { path, code: findCoded(error)?.code }));
    };
    if (sources.areConsoles) this.#shown = this.#shown.then(write);
  }

  /** Resolves when the last line is answered and the last text is shown. */
  async settled(): Promise<void> {
    await this.#answered;
    await this.#shown;
  }

  async #answer(line: Secret<string>): Promise<void> {
    const { text, until } = this.#options;
    if (line.reveal() === '') return this.#pause(PAUSE_MS, text);
    this.#shared.trying = { endsMs: undefined };
    let missing: number;
    try {
      missing = await this.#options.open(line);
    } catch (error) {
      until.throwIfAborted();
      this.#shared.trying = undefined;
      await this.#refuse(error);
      return;
    }
    if (missing === 0) {
      this.show('The state disk is open. The agent of this machine starts now.\n');
      return;
    }
    this.#shared.trying = undefined;
    const owners = missing === 1 ? 'owner' : 'owners';
    await this.#pause(
      PAUSE_MS,
      `\nThe code is right. ${missing} more ${owners} must act: with a code for this challenge, or over the network.\n`,
    );
  }

  async #refuse(error: unknown): Promise<void> {
    const failure = findCoded(error);
    const [path, code, reason] = [this.#path, failure?.code, describeError(error)];
    this.#options.log.warn('code for the state disk refused', { path, code, reason });
    const isMistyped = code === 'machineservice-code-mistyped';
    if (!isMistyped) this.#shared.refused += 1;
    const pauseMs = isMistyped ? PAUSE_MS : Math.min(PAUSE_MS * 2 ** this.#shared.refused, LONGEST_PAUSE_MS);
    const text = failure === undefined ? reason : `${code}: ${reason}\n  Fix: ${failure.fix}`;
    await this.#pause(pauseMs, `\n${text}\nNext try in ${pauseMs / 1000} s.\n`);
  }

  /** Shows a text, and the prompt after a wait. */
  async #pause(pauseMs: number, text: string): Promise<void> {
    const { clock, until } = this.#options;
    this.#wait = { endsMs: clock.monotonicMs() + pauseMs };
    this.show(text);
    await clock.sleep(pauseMs, until);
    this.#wait = undefined;
    this.show(PROMPT);
  }

  #drop(wait: Wait): void {
    if (this.#told === wait) return;
    this.#told = wait;
    const { log, clock } = this.#options;
    const leftMs = wait.endsMs === undefined ? undefined : wait.endsMs - clock.monotonicMs();
    const reason =
      leftMs === undefined
        ? 'a code is being tried'
        : `next try in ${Math.max(1, Math.ceil(leftMs / 1000))} s`;
    log.info('line not read', { path: this.#path, reason });
    this.show(`not read: ${reason}\n`);
  }
}

/** The recovery key, or the share of one owner, to which a typed code leads. @throws MachineServiceError */
export function keyOfCode(challenge: ConsoleChallenge, typed: Secret<string>): Secret<Uint8Array> {
  const code = decodeTyped('code', typed.reveal());
  if (code.kind === 'mistyped')
    throw new MachineServiceError('machineservice-code-mistyped', `reading the code: ${code.why}`);
  const key = challenge.open(code.bytes);
  if (key !== undefined) return key;
  throw new MachineServiceError('machineservice-code-refused', 'opening the state disk with the code');
}
