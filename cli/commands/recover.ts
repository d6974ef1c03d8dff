import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster recover …`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('recover')
    .description('the way back when most control planes are gone')
    .command('quorum')
    .description(
      'on a control plane that survived, as root: what there is, what would be lost, and go on from it alone',
    )
    .option('--confirm <cluster>', 'the name of the cluster: what only the others have is lost')
    .option('--dry-run', 'say what there is and what would be lost, and do nothing')
    .addHelpText(
      'after',
      `
Without --confirm nothing is changed. Where several survived, run it on each and recover from the one with the highest
raft index. Switch the others off first: two halves that cannot see each other would both serve until they meet.

Examples:
  cluster recover quorum                       see what there is
  cluster recover quorum --confirm my-cluster  go on from this machine alone
`,
    )
    .action(
      action<{ readonly confirm?: string; readonly dryRun?: true }>(async (context, { confirm, dryRun }) =>
        (await import('../recover/index.ts')).runRecoverQuorum(context, {
          confirmed: confirm,
          dryRun: dryRun === true,
        }),
      ),
    );
}
