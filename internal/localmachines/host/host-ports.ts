import type { Clock } from '../../clock/index.ts';
import type { CommandRunner, ProcessPort } from '../../exec/index.ts';
import type { FilePort } from '../../file/index.ts';

/** The machine that carries local nodes, as ports. */
export interface HostPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly processes: ProcessPort;
  readonly clock: Clock;
}

const MAX_TEXT_BYTES = 4 * 1024 * 1024;

/** A small text file, or undefined when it does not exist. Files of /proc say size 0 and are read whole. */
export async function readText(host: Pick<HostPorts, 'files'>, path: string): Promise<string | undefined> {
  const bytes = await host.files.read(path, MAX_TEXT_BYTES);
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

/** The standard output of a program. */
export async function output(
  host: Pick<HostPorts, 'commands'>,
  argv: readonly [string, ...string[]],
  signal: AbortSignal,
): Promise<string> {
  return (await host.commands.run({ argv, signal })).stdout;
}

/** Asks again every `everyMs` until the answer is true; false when `withinMs` passed. */
export async function waitUntil(
  host: Pick<HostPorts, 'clock'>,
  options: { readonly withinMs: number; readonly everyMs: number; readonly signal: AbortSignal },
  isSo: () => Promise<boolean>,
): Promise<boolean> {
  const deadlineMs = host.clock.monotonicMs() + options.withinMs;
  for (;;) {
    if (await isSo()) return true;
    if (host.clock.monotonicMs() >= deadlineMs) return false;
    await host.clock.sleep(options.everyMs, options.signal);
  }
}
