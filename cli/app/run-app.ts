import type { Clock } from '../../internal/clock/index.ts';
import { EXIT_CODES, isAbort, type ExitName } from '../../internal/errors/index.ts';
import { createHost as createStreamHost, Interruption, type AppHost, type Streams } from '../host/index.ts';
import type { ActionBinder, CommandPorts } from './command.ts';
import { glanceAt, type Glance } from './global-flags.ts';
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
  readonly clock: Clock;
  /** Made when a command runs; `--help` must not load what they need. */
  readonly createPorts: () => Promise<CommandPorts>;
  readonly signal: AbortSignal;
  readonly createHost?: typeof createStreamHost;
  readonly entries?: readonly CommandEntry[];
}

/** Parse, dispatch, answer the exit code. Everything it touches is in its options. */
export async function runApp(options: AppOptions): Promise<number> {
  const glance = glanceAt(options.args);
  if (glance.version && glance.words.length === 0) {
    options.streams.out.write(`${PROGRAM_VERSION}\n`);
    return EXIT_CODES.ok.number;
  }
  const host = (options.createHost ?? createStreamHost)(glance.flags, options);
  const onAbort = (): void => host.say('app-stopping', 'stopping; Ctrl-C again ends at once');
  options.signal.addEventListener('abort', onAbort, { once: true });
  try {
    const exit = await dispatch(options, glance, host);
    return typeof exit === 'number' ? exit : EXIT_CODES[exit].number;
  } catch (error) {
    return EXIT_CODES[await exitFrom(error, options.signal, host)].number;
  } finally {
    options.signal.removeEventListener('abort', onAbort);
  }
}

async function dispatch(options: AppOptions, glance: Glance, host: AppHost): Promise<ExitName | number> {
  const { createProgram } = await import('./program.ts');
  let exit: ExitName | number = 'ok';
  const action: ActionBinder =
    (handler) =>
    async (...received) => {
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
  });
  if (options.args.length === 0) program.outputHelp();
  else await program.parseAsync(options.args, { from: 'user' });
  return exit;
}

/** Commander calls an action with its arguments, its options and itself; absent optional arguments are undefined. */
function splitAction(received: readonly unknown[]): [flags: unknown, args: string[]] {
  const args = received.slice(0, -2).flat();
  return [received.at(-2), args.filter((arg): arg is string => typeof arg === 'string')];
}

async function exitFrom(error: unknown, signal: AbortSignal, host: AppHost): Promise<ExitName> {
  if (error instanceof Interruption) return error.exit;
  if (signal.aborted && signal.reason instanceof Interruption) {
    if (!isAbort(error, signal)) host.warn('app-stopped-with', reportFrom(error).message);
    return signal.reason.exit;
  }
  const { usageFrom } = await import('./usage.ts');
  const usage = usageFrom(error);
  if (usage === 'answered') return 'ok';
  const report = reportFrom(usage ?? error);
  host.fail(report);
  return report.exit;
}
