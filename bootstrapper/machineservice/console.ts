import { dirname } from 'node:path';
import { z } from 'zod';
import { describeError, type CodedError } from '../../internal/errors/index.ts';
import { when } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import type { Enrolment } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';

/** agetty(8) shows this issue file above its prompt, on every console and serial line. */
export const ISSUE_PATH = '/run/issue.d/60-cluster.issue';
/** Unit that prints the file on /dev/console and in the journal (see .ci/package). */
export const CONSOLE_UNIT = 'cluster-fingerprint.service';

/** A changed register in the details of `disk-locked`. */
const registerSchema = z.object({ now: z.string().regex(/^[0-9a-f]{64}$/) });

/** Ports (injected dependencies) to the console. */
type ConsolePorts = Pick<SystemPorts, 'files' | 'commands'>;

/** The text that the console shows, and the time until which it is shown. */
export interface ConsoleOptions extends ConsolePorts {
  readonly enrolment: Pick<Enrolment<Membership>, 'status'>;
  readonly fingerprint: string;
  readonly isJoinedOrJoining: () => Promise<boolean>;
}

/**
 * Shows the fingerprint on the machine's console, where an operator can compare it, until the machine is a
 * node. Also works on a machine without a console.
 */
export function consoleRunnable(options: ConsoleOptions): Runnable {
  const { files, enrolment, fingerprint, isJoinedOrJoining: isMember } = options;
  return async (scope) => {
    scope.healthy();
    if (!(await isMember())) await printOnConsole(options, issueText(fingerprint), scope);
    scope.waiting('membership');
    await when(enrolment.status, ({ state }) => state === 'Running', scope.signal);
    // Also removes the file of an earlier run of the agent.
    if ((await files.stat(ISSUE_PATH)) !== undefined) {
      await files.remove(ISSUE_PATH);
      await reloadPrompts(options, scope);
    }
    scope.done();
  };
}

/** Shows a text on the machine's console, and above the login prompts from now on. */
export function showOnConsole(ports: ConsolePorts, text: string): Runnable {
  return async (scope) => {
    scope.healthy();
    await printOnConsole(ports, text, scope);
    scope.done();
  };
}

/** As `showOnConsole()`, for an agent that cannot run. Never rejects, except when the signal fires. */
export async function printOnConsole(
  ports: ConsolePorts,
  text: string,
  scope: Pick<Scope, 'signal' | 'log'>,
): Promise<void> {
  const { files, commands } = ports;
  try {
    await files.makeDirectory(dirname(ISSUE_PATH), 0o755);
    await files.writeAtomic(ISSUE_PATH, text, { mode: 0o644 });
    await commands.run({
      argv: ['systemctl', '--no-block', 'restart', CONSOLE_UNIT],
      signal: scope.signal,
    });
  } catch (error) {
    scope.signal.throwIfAborted();
    scope.log.warn('text not shown on the console', { error: describeError(error) });
  }
  await reloadPrompts(ports, scope);
}

/** Makes agetty show its login prompts again, except where a user types. Without agetty, there are none. */
async function reloadPrompts(
  { commands }: ConsolePorts,
  scope: Pick<Scope, 'signal' | 'log'>,
): Promise<void> {
  await commands.run({ argv: ['agetty', '--reload'], signal: scope.signal }).catch((error: unknown) => {
    scope.signal.throwIfAborted();
    scope.log.debug('login prompts not reloaded', { error: describeError(error) });
  });
}

/** The text of the issue file. agetty interprets backslashes; a fingerprint contains none. */
export function issueText(fingerprint: string): string {
  return [
    'This machine is not in a cluster yet. Its fingerprint:',
    `  ${fingerprint}`,
    'Compare it with what `cluster init` or `cluster node ls --joins` shows.',
    '',
    '',
  ].join('\n');
}

/**
 * The text of the issue file of a machine whose agent cannot run until an operator has changed something.
 * @param fingerprint of the machine, if it waits for an owner
 * @param more further lines
 */
export function failureText(
  failure: { readonly code: string; readonly message: string; readonly fix: string },
  fingerprint?: string,
  more: readonly string[] = [],
): string {
  return [
    `This machine does not start its agent: ${line(failure.code)}`,
    `  ${line(failure.message)}`,
    `  Fix: ${line(failure.fix)}`,
    ...(fingerprint === undefined ? [] : ['Its fingerprint until then:', `  ${fingerprint}`]),
    ...more,
    '',
    '',
  ].join('\n');
}

/**
 * What a machine with a locked state disk shows to a person who opens it without a network.
 * @param options.pipe where root writes the code; undefined: the console reads it
 */
export function challengeLines(
  { details }: Pick<CodedError, 'details'>,
  options: {
    readonly challenge: string;
    readonly pipe: string | undefined;
    /** How many owners must make a code. */
    readonly owners: number;
  },
): readonly string[] {
  const { challenge, pipe, owners } = options;
  const changed = Object.entries(details).flatMap(([name, value]) => {
    const register = registerSchema.safeParse(value);
    return register.success ? [`  ${name}  ${register.data.now}`] : [];
  });
  return [
    ...(changed.length === 0
      ? []
      : ['Registers of the TPM that have changed, with their values now:', ...changed]),
    'Without a network: on a workstation with the key of an owner, run',
    '  cluster recover disk NODE --console',
    'and give it this challenge:',
    ...challenge.split('\n').map((each) => `  ${each}`),
    pipe === undefined
      ? 'Then type the code that it shows here, and press Enter.'
      : `Then log in as root here, and run: echo CODE > ${pipe}`,
    ...(owners === 1
      ? []
      : [
          `${owners} different owners in all must do this for the same challenge, or recover the disk over the network.`,
        ]),
  ];
}

/** What a machine with a locked state disk shows instead of a challenge. */
export function noChallengeLine(reason: string): string {
  return `No challenge for a recovery without a network: ${line(reason)}`;
}

/** agetty interprets backslashes. */
function line(text: string): string {
  return printable(text).replaceAll('\\', '/');
}
