import { recoveryKeyOfOwner, type RecoveryKey } from '../../internal/backup/index.ts';
import {
  answerConsoleChallenge,
  decodeTyped,
  groupsOfLine,
  readGroups,
  typedDigits,
  type TypedBytes,
} from '../../internal/statedisk/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readRecoveryKeyFile } from '../backup/index.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { RecoverError } from './errors.ts';
import { confirmRecovery } from './recover-disk.ts';

const GROUP_DIGITS = 5;
const MAX_LINE_CHARS = 500;

/** Arguments of `cluster recover disk --console`. */
export interface RecoverAtConsoleOptions {
  /** The challenge that the console of the machine shows; undefined: asks for it. */
  readonly challenge: string | undefined;
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  readonly yes: boolean;
  /** Check the challenge and make no code. */
  readonly dryRun: boolean;
}

/**
 * `cluster recover disk --console`: makes the code that opens the state disk of a machine without a network. The owner carries challenge and code between
 * console and workstation; nothing proves to the workstation what the machine is.
 * @throws RecoverError `recover-console-challenge-invalid`, `recover-disk-not-confirmed`
 */
export async function runRecoverAtConsole(
  context: CommandContext,
  name: string,
  options: RecoverAtConsoleOptions,
): Promise<void> {
  const { host } = context;
  const { challenge: given, recoveryKey, dryRun } = options;
  const challenge = bytesOf(
    given === undefined ? await askChallenge(context) : decodeTyped('challenge', given),
  );
  host.say('recover-console-unproved', unprovedText(name));
  if (dryRun)
    return host.result(
      { node: name, dryRun: true },
      () => 'The challenge has no typing error. No code was made.',
    );
  const question = `Make a code that opens the state disk of ${name}?`;
  await confirmRecovery(context, { name, question, yes: options.yes });
  const { secret } =
    recoveryKey === undefined ? await keyOfOwner(context) : await readRecoveryKeyFile(context, recoveryKey);
  const code = answerConsoleChallenge(challenge, secret)?.reveal();
  if (code === undefined) throw invalid('no machine makes such a challenge');
  host.result({ node: name, code }, () =>
    [
      `Type this code at the console of ${name}:`,
      `  ${code}`,
      'It is for this challenge only: it opens no other machine, and not this one after its next start.',
    ].join('\n'),
  );
}

async function keyOfOwner(context: CommandContext): Promise<RecoveryKey> {
  const { keyPem } = await readOwnerKey(context, layoutOf(context.paths.workspace));
  return recoveryKeyOfOwner(keyPem);
}

function unprovedText(name: string): string {
  return [
    `Nothing proves to this workstation what ${name} is: other software could show such a challenge too.`,
    'Look at the machine itself: it must be the one that you mean, with the disks, the firmware and the image',
    'that you gave it. The registers that its console shows as changed must be those of a change that you made.',
    'The code opens its state disk for the software that the machine runs now.',
  ].join('\n');
}

/** Asks for the challenge line by line, so that a typing error costs one line. */
async function askChallenge({ host }: CommandContext): Promise<TypedBytes> {
  let typed = '';
  const isComplete = await host.askLines('Challenge, as the console of the machine shows it:', (line) => {
    const text = line.slice(0, MAX_LINE_CHARS).replaceAll(/[\s-]/g, '');
    const why = text === '' ? undefined : whyMistyped(text, typed.length / GROUP_DIGITS);
    if (why === undefined) typed += text;
    else host.warn('recover-console-line-mistyped', `${why}; type this line again`);
    return typed.length >= typedDigits('challenge');
  });
  if (!isComplete) throw invalid('nobody has given it');
  return decodeTyped('challenge', typed);
}

/** What is wrong with a line that begins with group `first`; undefined: nothing. Several lines may have been pasted as one. */
function whyMistyped(text: string, first: number): string | undefined {
  const read = readGroups(text, first);
  if (read.kind === 'mistyped') return read.why;
  const groups = text.length / GROUP_DIGITS;
  if (!Number.isInteger(groups)) return 'a digit is missing';
  let expected = 0;
  while (expected < groups && first + expected < typedDigits('challenge') / GROUP_DIGITS)
    expected += groupsOfLine('challenge', first + expected);
  return expected === groups ? undefined : `${groups} groups instead of ${expected}`;
}

function bytesOf(challenge: TypedBytes): Uint8Array {
  if (challenge.kind === 'bytes') return challenge.bytes;
  throw invalid(challenge.why);
}

function invalid(why: string): RecoverError {
  return new RecoverError('recover-console-challenge-invalid', `reading the challenge: ${why}`);
}
