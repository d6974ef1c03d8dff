import type { AppHost, HostFlags, HostOptions } from './host.ts';
import { JsonHost } from './json-host.ts';
import { PlainHost } from './plain-host.ts';
import { TerminalHost } from './terminal-host.ts';

/** JSON with `--output json`; otherwise messages for people: a spinner when stderr is a terminal, plain lines otherwise. */
export function createHost(flags: HostFlags, options: HostOptions): AppHost {
  const { streams, env } = options;
  if (flags.output === 'json') return new JsonHost(flags, options);
  const isTerminal = streams.err.isTTY === true && env['TERM'] !== 'dumb';
  return isTerminal ? new TerminalHost(flags, options) : new PlainHost(flags, options);
}
