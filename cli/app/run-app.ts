import type { Command } from 'commander';
import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { EXIT_CODES, isAbort, type ExitName } from '../../internal/errors/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import {
  createHost as createStreamHost,
  Interruption,
  type AppHost,
  type ErrorReport,
  type Output,
  type OutputLoss,
  type Streams,
} from '../host/index.ts';
import type { ActionBinder, CommandPaths, CommandPorts } from './command.ts';
import { effectOf, ignoresContext, listFlagMisuse } from './command-effects.ts';
import { AppError, appErrors } from './errors.ts';
import { commandPath, findCommand } from './find-command.ts';
import { preparseArgs, type GlobalFlags, type PreparsedArgs } from './preparse-args.ts';
import { pathsFrom } from './paths.ts';
import { COMMANDS, type CommandEntry } from './registry.ts';
import { passphrasesFrom, type ReadDescriptor } from './passphrases.ts';
import { reportFrom } from './report.ts';
import { StepJournal } from './step-journal.ts';

/** Everything that the app takes from the process. */
export interface AppOptions {
  /** Command-line arguments, without the program and the script. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly cwd: string;
  readonly streams: Streams;
  /** Reports whether output to `streams.out` was lost. */
  readonly output: Output;
  readonly clock: Clock;
  /** Called when a command runs: `--help` must not load the modules of the ports. */
  readonly createPorts: () => Promise<CommandPorts>;
  /** Reads an inherited file descriptor to its end. */
  readonly readDescriptor: ReadDescriptor;
  readonly signal: AbortSignal;
  /** Calls `restore` when this process ends in whatever way; returns how to forget it. */
  readonly onExit?: (restore: () => void) => () => void;
  readonly createHost?: typeof createStreamHost;
  readonly entries?: readonly CommandEntry[];
}

/** Parses the arguments, runs the command and returns the exit code once all output is written. */
export async function runApp(options: AppOptions): Promise<number> {
  const preparsed = preparseArgs(options.args);
  const host = (options.createHost ?? createStreamHost)(preparsed.flags, options);
  const run: Run = { effect: 'reads', command: '', steps: new StepJournal() };
  const code = await runCommand(options, { preparsed, host, run });
  const loss = await flushed(options);
  if (loss instanceof Interruption) return EXIT_CODES[loss.exit].number;
  return loss === undefined || code !== EXIT_CODES.ok.number ? code : exitOfLoss(loss, run, host);
}

/** Waits until all output is written. The first signal ends the wait, unless it already ended the command. */
async function flushed({ output, signal }: AppOptions): Promise<OutputLoss | Interruption | undefined> {
  if (signal.aborted) return output.flush();
  using waiting = childSignal(signal);
  const interrupted = untilAborted(waiting.signal).catch((reason: unknown) => {
    if (reason instanceof Interruption) return reason;
    throw reason;
  });
  return await Promise.race([output.flush(), interrupted]);
}

/** The command that runs, as far as it is known: filled in while the command line is parsed. */
interface Run {
  effect: ReturnType<typeof effectOf>;
  /** The words of the command, such as "node drain". */
  command: string;
  readonly steps: StepJournal;
}

interface Started {
  readonly preparsed: PreparsedArgs;
  readonly host: AppHost;
  readonly run: Run;
}

async function runCommand(options: AppOptions, started: Started): Promise<number> {
  const { preparsed, host } = started;
  if (preparsed.version && preparsed.words.length === 0) {
    host.result({ version: VERSION }, () => VERSION);
    return EXIT_CODES.ok.number;
  }
  using stopping = childSignal(options.signal);
  const { signal } = stopping;
  const onAbort = (): void => {
    if (!options.output.closed.aborted)
      host.say('app-stopping', `stopping; ${secondSignalOf(options.signal)} ends it immediately`);
  };
  // When nobody reads the output any more, a command that only prints stops; one that makes changes
  // continues.
  const onClosed = (): void => {
    if (started.run.effect === 'reads') stopping.abort(new Interruption('outputClosed'));
  };
  options.signal.addEventListener('abort', onAbort, { once: true });
  options.output.closed.addEventListener('abort', onClosed, { once: true });
  try {
    const exit = await dispatch({ ...options, signal }, started);
    return typeof exit === 'number' ? exit : EXIT_CODES[exit].number;
  } catch (error) {
    return EXIT_CODES[await exitFrom(error, signal, started)].number;
  } finally {
    options.signal.removeEventListener('abort', onAbort);
    options.output.closed.removeEventListener('abort', onClosed);
  }
}

/** Only a person at a terminal has a Ctrl-C to press. */
function secondSignalOf({ reason }: AbortSignal): string {
  const isTerminated = reason instanceof Interruption && reason.exit === 'terminated';
  return isTerminated ? 'another SIGTERM' : 'another Ctrl-C';
}

/** The exit code of a command that succeeded, but whose output was lost. */
function exitOfLoss(loss: OutputLoss, { effect }: Run, host: AppHost): number {
  if (loss.kind === 'closed') return EXIT_CODES[effect === 'reads' ? 'outputClosed' : 'ok'].number;
  const isFull = ['ENOSPC', 'EDQUOT'].includes((loss.error as NodeJS.ErrnoException).code ?? '');
  const code = isFull ? 'app-output-disk-full' : 'app-output-lost';
  const report = reportFrom(new AppError(code, 'writing output', { cause: loss.error }));
  host.fail(report);
  return EXIT_CODES[report.exit].number;
}

async function dispatch(options: AppOptions, { preparsed, host, run }: Started): Promise<ExitName | number> {
  const { createProgram } = await import('./program.ts');
  let exit: ExitName | number = 'ok';
  const action: ActionBinder =
    (handler) =>
    async (...received) => {
      const command = commandPath(received.at(-1) as Command);
      run.effect = effectOf(command);
      const misuse = listFlagMisuse(command, preparsed.flags);
      if (misuse !== undefined) throw await usageErrorOf(misuse, command);
      if (preparsed.flags.context !== undefined && preparsed.flags.workspace !== undefined)
        throw await usageErrorOf('--context and --workspace exclude each other', command);
      const [flags, args] = splitAction(received);
      const ports = await options.createPorts();
      const context = {
        host: run.steps.watch(host),
        ports,
        passphrases: passphrasesFrom({ ...options, host, descriptor: preparsed.flags.passphraseFd }),
        paths: await pathsOf(options, { ports, command, flags: preparsed.flags }),
        env: options.env,
        signal: options.signal,
      };
      exit = (await handler(context, flags as never, ...args)) ?? 'ok';
    };
  const entries = options.entries ?? COMMANDS;
  const all = preparsed.words[0] === 'completion';
  const wanted = new Set(preparsed.words.slice(0, preparsed.words[0] === 'help' ? 2 : 1));
  const help: string[] = [];
  const program = await createProgram({
    version: VERSION,
    entries,
    loads: (name) => all || wanted.has(name),
    action,
    write: (text) => void help.push(text),
    writeGroupHelp: (text) => {
      if (!isData(preparsed)) options.streams.err.write(text);
    },
  });
  const { found } = findCommand(program, preparsed.words);
  run.command = commandPath(found);
  try {
    if (options.args.length === 0) program.outputHelp();
    else if (isBareGroup(found, options.args)) found.help({ error: true });
    else await program.parseAsync(options.args, { from: 'user' });
  } finally {
    await showHelp(options, { program, preparsed, host, text: help.join('') });
  }
  return exit;
}

/** Whether nothing follows the name of a command that has subcommands and cannot run without an argument. */
function isBareGroup(command: Command, args: readonly string[]): boolean {
  const { commands, registeredArguments } = command;
  const isGroup = commands.length > 0 && registeredArguments.some(({ required }) => required);
  return isGroup && args.at(-1) === command.name();
}

/** The directories of a command; its workspace may be that of a context. @throws ContextsError */
async function pathsOf(
  options: AppOptions,
  run: { readonly ports: CommandPorts; readonly command: string; readonly flags: GlobalFlags },
): Promise<CommandPaths> {
  const { context, workspace } = run.flags;
  const paths = pathsFrom({ ...options, ...run.flags });
  if (context === undefined && ignoresContext(run.command)) return paths;
  const isNamed = (workspace ?? options.env['CLUSTER_WORKSPACE'] ?? '') !== '';
  const { chooseWorkspace } = await import('../contexts/index.ts');
  const choice = { config: paths.config, data: paths.data, workspace: paths.workspace, isNamed, context };
  return { ...paths, workspace: await chooseWorkspace(run.ports.files, choice) };
}

/** Whether results are data for programs. */
function isData({ flags }: PreparsedArgs): boolean {
  return flags.output === 'json' || flags.output === 'yaml';
}

/** Writes the help that was asked for: the text of the parser, or a description of the command for programs. */
async function showHelp(
  { streams }: AppOptions,
  shown: {
    readonly program: Command;
    readonly preparsed: PreparsedArgs;
    readonly host: AppHost;
    readonly text: string;
  },
): Promise<void> {
  const { program, preparsed, host, text } = shown;
  if (text === '') return;
  if (!isData(preparsed)) return void streams.out.write(text);
  const words = preparsed.words[0] === 'help' ? preparsed.words.slice(1) : preparsed.words;
  const { describeCommand } = await import('./describe-command.ts');
  host.result(describeCommand(findCommand(program, words).found), () => text);
}

async function usageErrorOf(text: string, command: string): Promise<AppError> {
  return (await import('./usage.ts')).usageError(text, command);
}

/** Commander calls an action with its arguments (undefined when absent), its options and the command. */
function splitAction(received: readonly unknown[]): [flags: unknown, args: string[]] {
  const args = received.slice(0, -2).flat();
  return [received.at(-2), args.filter((arg): arg is string => typeof arg === 'string')];
}

async function exitFrom(
  error: unknown,
  signal: AbortSignal,
  { preparsed, host, run }: Started,
): Promise<ExitName> {
  const interruption = [error, signal.reason].find((each) => each instanceof Interruption);
  if (interruption !== undefined) {
    if (error !== interruption && !isAbort(error, signal))
      host.warn('app-stopped-with', reportFrom(error).message);
    if (run.effect === 'changes') host.say('app-interrupted', run.steps.describe(), run.steps.state);
    return interruption.exit;
  }
  const { usageError, usageFrom } = await import('./usage.ts');
  const usage = usageFrom(error, run.command);
  if (usage === 'answered') return 'ok';
  if (usage === 'incomplete') {
    if (isData(preparsed)) host.fail(reportFrom(usageError('missing subcommand', run.command)));
    return 'usage';
  }
  const report = withHelpOf(run.command, reportFrom(usage ?? error));
  host.fail(report);
  return report.exit;
}

/** A usage error without a fix of its own refers to the help of its command. */
function withHelpOf(command: string, report: ErrorReport): ErrorReport {
  if (report.code !== 'app-usage' || report.fix !== appErrors['app-usage'].fix || command === '')
    return report;
  return { ...report, fix: `See 'cluster ${command} --help'.` };
}
