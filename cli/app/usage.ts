import { CommanderError } from 'commander';
import { AppError } from './errors.ts';

const ANSWERED: readonly string[] = ['commander.helpDisplayed', 'commander.version'];

/**
 * What the parser threw: that it has answered by itself (help), that a group of commands was named and none of them (its
 * help is shown), a usage error, or not its own at all.
 */
export function usageFrom(error: unknown): 'answered' | 'incomplete' | AppError | undefined {
  if (!(error instanceof CommanderError)) return undefined;
  if (error.code === 'commander.help') return error.exitCode === 0 ? 'answered' : 'incomplete';
  if (ANSWERED.includes(error.code)) return 'answered';
  const text = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  return new AppError('app-usage', `reading the command line: ${text}`);
}
