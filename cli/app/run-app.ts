import type { Command } from 'commander';
import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { EXIT_CODES, isAbort, type ExitName } from '../../internal/errors/index.ts';
import {
  createHost as createStreamHost,
  Interruption,
  type AppHost,
  type Output,
  type OutputLoss,
  type Streams,
} from '../host/index.ts';
import type { ActionBinder, CommandPorts } from './command.ts';
import { effectOf } from './command-effects.ts';
import { AppError } from './errors.ts';
import { preparseArgs, type PreparsedArgs } from './preparse-args.ts';
import { pathsFrom } from './paths.ts';
import { COMMANDS, type CommandEntry } from './registry.ts';
import { reportFrom } from './report.ts';
import { PROGRAM_VERSION } from './version.ts';

export interface AppOptions {
  /** Without program and script. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly cwd: string;
  readonly streams: Streams;
  /** What becomes of what is written to `streams.out`. */
  readonly output: Output;
  readonly clock: Clock;
  /** Made when a command runs; `--help` must not load what they need. */
  readonly createPorts: () => Promise<CommandPorts>;
  readonly signal: AbortSignal;
  readonly createHost?: typeof createStreamHost;
  readonly entries?: readonly CommandEntry[];
}

/** Parse, dispatch, answer the exit code when all output is written. Everything it touches is in its options. */
export async function runApp(options: AppOptions): Promise<number> {
  const glance = preparseArgs(options.args);
  const host = (options.createHost ?? createStreamHost)(glance.flags, options);
  const run: Run = { effect: 'reads' };
  const code = await runCommand(options, { glance, host, run });
  const loss = await flushed(options);
  if (loss instanceof Interruption) return EXIT_CODES[loss.exit].number;
  return loss === undefined || code !== EXIT_CODES.ok.number ? code : exitOfLoss(loss, run, host);
}

/** A reader may be slow for ever: then the first signal ends the wait. Of a command that it ended, all output is written. */
async function flushed({ output, signal }: AppOptions): Promise<OutputLoss | Interruption | undefined> {
  if (signal.aborted) return output.flush();
  using waiting = childSignal(signal);
  const interrupted = untilAborted(waiting.signal).catch((reason: unknown) => {
    if (reason instanceof Interruption) return reason;
    throw reason;
  });
  return await Promise.race([output.flush(), interrupted]);
}

/** What is known of the command when it has ended. */
interface Run {
  effect: ReturnType<typeof effectOf>;
}

interface Started {
  readonly glance: PreparsedArgs;
  readonly host: AppHost;
  readonly run: Run;
}

async function runCommand(options: AppOptions, started: Started): Promise<number> {
  const { glance, host } = started;
  if (glance.version && glance.words.length === 0) {
    options.streams.out.write(`${PROGRAM_VERSION}\n`);
    return EXIT_CODES.ok.number;
  }
  using stopping = childSignal(options.signal);
  const { signal } = stopping;
  const onAbort = (): void => {
    if (!options.output.closed.aborted) host.say('app-stopping', 'stopping; Ctrl-C again ends at once');
  };
  // A command that only prints has nothing left to do without a reader; one that changes something goes on.
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

/** The exit code of a command that did what it should, but whose output was not read to its end. */
function exitOfLoss(loss: OutputLoss, { effect }: Run, host: AppHost): number {
  if (loss.kind === 'closed') return EXIT_CODES[effect === 'reads' ? 'outputClosed' : 'ok'].number;
  const isFull = ['ENOSPC', 'EDQUOT'].includes((loss.error as NodeJS.ErrnoException).code ?? '');
  const code = isFull ? 'app-output-disk-full' : 'app-output-lost';
  const report = reportFrom(new AppError(code, 'writing the output', { cause: loss.error }));
  host.fail(report);
  return EXIT_CODES[report.exit].number;
}

async function dispatch(options: AppOptions, { glance, host, run }: Started): Promise<ExitName | number> {
  const { createProgram } = await import('./program.ts');
  let exit: ExitName | number = 'ok';
  const action: ActionBinder =
    (handler) =>
    async (...received) => {
      run.effect = effectOf(wordsOf(received.at(-1) as Command));
      const [flags, args] = splitAction(received);
      const context = {
        host,
        ports: await options.createPorts(),
        paths: pathsFrom({ ...options, ...glance.flags }),
        env: options.env,
        signal: options.signal,
      };
      exit = (await handler(context, flags as never, ...args)) ?? 'ok';
    };
  const entries = options.entries ?? COMMANDS;
  const all = glance.words[0] === 'completion';
  const wanted = new Set(glance.words.slice(0, glance.words[0] === 'help' ? 2 : 1));
  const program = await createProgram({
    version: PROGRAM_VERSION,
    entries,
    loads: (name) => all || wanted.has(name),
    action,
    write: (text) => options.streams.out.write(text),
    writeGroupHelp: (text) => {
      if (glance.flags.output === 'human') options.streams.err.write(text);
    },
  });
  if (options.args.length === 0) program.outputHelp();
  else await program.parseAsync(options.args, { from: 'user' });
  return exit;
}

/** "node set-role": the words that call a command, without the program's own name. */
function wordsOf(command: Command): string {
  const above = command.parent;
  return above === null ? '' : `${wordsOf(above)} ${command.name()}`.trimStart();
}

/** Commander calls an action with its arguments, its options and itself; absent optional arguments are undefined. */
function splitAction(received: readonly unknown[]): [flags: unknown, args: string[]] {
  const args = received.slice(0, -2).flat();
  return [received.at(-2), args.filter((arg): arg is string => typeof arg === 'string')];
}

async function exitFrom(error: unknown, signal: AbortSignal, { glance, host }: Started): Promise<ExitName> {
  if (error instanceof Interruption) return error.exit;
  if (signal.aborted && signal.reason instanceof Interruption) {
    if (!isAbort(error, signal)) host.warn('app-stopped-with', reportFrom(error).message);
    return signal.reason.exit;
  }
  const { usageFrom } = await import('./usage.ts');
  const usage = usageFrom(error);
  if (usage === 'answered') return 'ok';
  if (usage === 'incomplete') {
    if (glance.flags.output === 'json')
      host.fail(reportFrom(new AppError('app-usage', 'a subcommand is missing')));
    return 'usage';
  }
  const report = reportFrom(usage ?? error);
  host.fail(report);
  return report.exit;
}
