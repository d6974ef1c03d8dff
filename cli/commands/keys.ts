import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster keys …`. */
export function register(program: Command, action: ActionBinder): void {
  const keys = program.command('keys').description('the keys that all control planes share');
  keys
    .command('show')
    .description('of which generation they are, and how far the next one is')
    .action(action<object>(async (context) => (await import('../admin/index.ts')).runKeysShow(context)));
}
