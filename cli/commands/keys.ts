import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { wholeNumber } from './numbers.ts';
import { YES } from './texts.ts';

interface RotateFlags {
  readonly reason: string;
  readonly wait: boolean;
  readonly replace?: number;
  readonly dryRun?: true;
  readonly yes?: true;
}

/** `cluster keys …`. */
export function register(program: Command, action: ActionBinder): void {
  const keys = program.command('keys').description('the keys that all control planes share');
  keys
    .command('show')
    .description('of which generation they are, and how far the next one is')
    .action(action<object>(async (context) => (await import('../nodes/index.ts')).runKeysShow(context)));
  keys
    .command('rotate')
    .description('replace them by new ones while everything runs, and prove that the old ones open nothing')
    .option('--reason <text>', 'why, for the audit', '')
    .option(
      '--replace <generation>',
      'the one to be replaced, as `cluster keys show` has it: needed from the second on',
      wholeNumber(1, 1_000_000),
    )
    .option('--no-wait', 'do not follow it: the cluster does it by itself')
    .option('--dry-run', 'say what would be lost and do nothing')
    .option('-y, --yes', YES)
    .addHelpText(
      'after',
      '\nControl planes start etcd and the API server again, one control plane at a time; pods go on. With one or two control' +
        '\nplanes etcd has no quorum for some seconds each time. Nodes that are off are waited for if they are control planes.' +
        '\nA command that is repeated begins nothing twice: it follows what is under way, and where the keys were replaced' +
        '\nbefore it says when; whoever wants these replaced as well names their generation with --replace.' +
        '\nExample:\n  cluster keys rotate --reason "a backup of n1 was read by somebody else"',
    )
    .action(
      action<RotateFlags>(async (context, { reason, wait, replace, dryRun, yes }) =>
        (await import('../nodes/index.ts')).runKeysRotate(context, {
          reason,
          wait,
          replace,
          dryRun: dryRun === true,
          yes: yes === true,
        }),
      ),
    );
}
