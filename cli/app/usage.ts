import { CommanderError } from 'commander';
import { isListed } from './command-effects.ts';
import { AppError } from './errors.ts';

const HELP_SHOWN: readonly string[] = ['commander.helpDisplayed', 'commander.version'];

/**
 * Classifies an error of the command-line parser: `answered`: the parser has printed help; `incomplete`: the
 * subcommand of a group is missing, and the help of the group was printed; otherwise a usage error. undefined
 * for other errors. @param command words of the command, "node drain"; empty for the program
 */
export function usageFrom(error: unknown, command: string): 'answered' | 'incomplete' | AppError | undefined {
  if (!(error instanceof CommanderError)) return undefined;
  if (error.code === 'commander.help') return error.exitCode === 0 ? 'answered' : 'incomplete';
  if (HELP_SHOWN.includes(error.code)) return 'answered';
  const text = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  return usageError(withSynonym(text, command), command);
}

/** Words of other tools for our subcommands. The parser suggests only words that are spelled like the given one. */
const SYNONYMS: Readonly<Record<string, readonly string[]>> = {
  rm: ['remove', 'delete'],
  del: ['delete', 'remove'],
  delete: ['remove'],
  list: ['ls'],
  get: ['show', 'ls'],
  describe: ['show'],
};

/** Adds a suggestion to the error for an unknown subcommand that has none. */
function withSynonym(text: string, group: string): string {
  const word = /^unknown command '([a-z-]+)'$/.exec(text)?.[1] ?? '';
  const known = SYNONYMS[word]?.find((each) => isListed(`${group} ${each}`.trimStart()));
  return known === undefined ? text : `${text} (Did you mean ${known}?)`;
}

/** A usage error that refers to the help of the command. */
export function usageError(text: string, command: string): AppError {
  const help = ['cluster', command, '--help'].filter((word) => word !== '').join(' ');
  return new AppError('app-usage', text, { fix: `See '${help}'.` });
}
