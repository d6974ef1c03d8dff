import type { Clock } from '../../internal/clock/index.ts';
import type { AppHost, HostFlags } from './app-host.ts';
import { JsonHost } from './json-host.ts';
import { PlainHost } from './plain-host.ts';
import type { Streams } from './streams.ts';
import { TerminalHost } from './terminal-host.ts';

/** The parts of the process that a host uses. */
export interface HostOptions {
  readonly streams: Streams;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** JSON with `--output json`, a spinner when stderr is a terminal, plain lines otherwise. */
export function createHost(flags: HostFlags, options: HostOptions): AppHost {
  const { streams, clock, env, signal } = options;
  if (flags.output === 'json') return new JsonHost({ out: streams.out, clock });
  const isTerminal = streams.err.isTTY === true && env['TERM'] !== 'dumb';
  if (!isTerminal) return new PlainHost({ streams, clock, env, verbose: flags.verbose });
  const input = flags.input && streams.in.isTTY === true;
  return new TerminalHost({ streams, clock, env, signal, verbose: flags.verbose, input });
}
