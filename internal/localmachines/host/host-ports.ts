import type { Clock } from '../../clock/index.ts';
import type { CommandRunner, ProcessPort } from '../../exec/index.ts';
import type { FilePort } from '../../file/index.ts';

/** The interfaces (ports) to the machine that runs local nodes. */
export interface HostPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly processes: ProcessPort;
  readonly clock: Clock;
}

/** The standard output of a program. */
export async function output(
  host: Pick<HostPorts, 'commands'>,
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): Promise<string> {
  return (await host.commands.run({ argv, signal })).stdout;
}

/** Repeats the check every `everyMs` until it is true. Returns false when `withinMs` has passed. */
export async function waitUntil(
  host: Pick<HostPorts, 'clock'>,
  options: { readonly withinMs: number; readonly everyMs: number; readonly signal: AbortSignal },
  check: () => Promise<boolean>,
): Promise<boolean> {
  const deadlineMs = host.clock.monotonicMs() + options.withinMs;
  for (;;) {
    if (await check()) return true;
    if (host.clock.monotonicMs() >= deadlineMs) return false;
    await host.clock.sleep(options.everyMs, options.signal);
  }
}
