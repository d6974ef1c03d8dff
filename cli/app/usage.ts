import { CommanderError } from 'commander';
import { AppError } from './errors.ts';

const ANSWERED: readonly string[] = ['commander.help', 'commander.helpDisplayed', 'commander.version'];

/** What the parser threw: that it has answered by itself (help), a usage error, or not its own at all. */
export function usageFrom(error: unknown): 'answered' | AppError | undefined {
  if (!(error instanceof CommanderError)) return undefined;
  if (ANSWERED.includes(error.code)) return 'answered';
  const text = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  return new AppError('app-usage', `reading the command line: ${text}`);
}
