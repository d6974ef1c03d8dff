import type { Clock } from '../../internal/clock/index.ts';
import { type CodedError, describeError, findCoded } from '../../internal/errors/index.ts';
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
  /** Opens the disk. @throws CodedError: nothing was changed */
  open(code: Secret<string>): Promise<void>;
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
 * Reads codes from the sources, one line at a time, until `until` fires. What is typed while a code is tried is ignored, and each refused code makes
 * the next one wait longer. A line is neither logged nor kept. Never rejects.
 */
export async function readCodes(options: CodeEntryOptions): Promise<void> {
  const { sources, text } = options;
  let refused = 0;
  let trying: Promise<void> | undefined;
  let prompting: Promise<void> | undefined;
  const tryLine = async (path: string, line: string): Promise<void> => {
    const outcome = await answer(options, { path, line: new Secret(line.trim()), refused });
    if (outcome === 'refused') refused += 1;
    trying = undefined; // before the prompt, which somebody may answer at once
    if (outcome !== 'opened') prompting = show(options, path, PROMPT);
  };
  const take = (path: string, line: string): void => {
    trying ??= tryLine(path, line).catch(() => undefined); // `until` has fired
  };
  for (const path of sources.paths) await show(options, path, text);
  await Promise.allSettled(sources.paths.map((path) => readLines(options, path, take)));
  await Promise.all([trying, prompting]);
}

async function readLines(
  { commands, clock, log, until }: CodeEntryOptions,
  path: string,
  take: (path: string, line: string) => void,
): Promise<never> {
  for (;;) {
    // cat(1) gives back the console when it is killed. A read of this process would block a thread for good.
    const onLine = (line: string, stream: string): void => void (stream === 'stdout' && take(path, line));
    await commands.run({ argv: ['cat', '--', path], onLine, signal: until }).catch((error: unknown) => {
      until.throwIfAborted();
      // The error itself has the end of what was typed.
      log.warn('console not readable', { path, code: findCoded(error)?.code });
    });
    await clock.sleep(PAUSE_MS, until);
  }
}

/** Tries one line, answers on its console, and waits before the next one. */
async function answer(
  options: CodeEntryOptions,
  { path, line, refused }: { readonly path: string; readonly line: Secret<string>; readonly refused: number },
): Promise<'opened' | 'shown' | 'mistyped' | 'refused'> {
  const { clock, log, text, until } = options;
  if (line.reveal() === '') {
    await show(options, path, text);
    await clock.sleep(PAUSE_MS, until);
    return 'shown';
  }
  try {
    await options.open(line);
  } catch (error) {
    until.throwIfAborted();
    const failure = findCoded(error);
    log.warn('code for the state disk refused', { path, code: failure?.code, reason: describeError(error) });
    const outcome = failure?.code === 'machineservice-code-mistyped' ? 'mistyped' : 'refused';
    const pauseMs =
      outcome === 'mistyped' ? PAUSE_MS : Math.min(PAUSE_MS * 2 ** (refused + 1), LONGEST_PAUSE_MS);
    await show(options, path, refusalText(error, failure));
    await clock.sleep(pauseMs, until);
    return outcome;
  }
  await show(options, path, 'The state disk is open. The agent of this machine starts now.\n');
  return 'opened';
}

function refusalText(error: unknown, failure: CodedError | undefined): string {
  if (failure === undefined) return `\n${describeError(error)}\n`;
  return `\n${failure.code}: ${describeError(error)}\n  Fix: ${failure.fix}\n`;
}

async function show(
  { commands, log, sources, signal }: CodeEntryOptions,
  path: string,
  text: string,
): Promise<void> {
  if (!sources.areConsoles) return;
  await commands
    .run({ argv: ['tee', '--', path], input: text, timeoutMs: COMMAND_MS, signal })
    .catch((error: unknown) => log.debug('console not writable', { path, code: findCoded(error)?.code }));
}

/** The recovery key to which a typed code leads. @throws MachineServiceError */
export function keyOfCode(challenge: ConsoleChallenge, typed: Secret<string>): Secret<Uint8Array> {
  const code = decodeTyped('code', typed.reveal());
  if (code.kind === 'mistyped')
    throw new MachineServiceError('machineservice-code-mistyped', `reading the code: ${code.why}`);
  const key = challenge.open(code.bytes);
  if (key !== undefined) return key;
  throw new MachineServiceError('machineservice-code-refused', 'opening the state disk with the code');
}
