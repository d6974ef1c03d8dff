import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster recover …`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .command('quorum')
    .description('restore the etcd quorum from this control plane (as root)')
    .option('--confirm <cluster>', 'cluster name: confirms the loss of data on the other nodes')
    .option('--dry-run', 'show the state and what would be lost without changing anything')
    .addHelpText(
      'after',
      `
Without --confirm nothing is changed. If several control planes survived, run
the command on each and recover from the one with the highest raft index. Shut
the others down first: if they only lost their connection, both halves would
serve the cluster.

Examples:
  cluster recover quorum
  cluster recover quorum --confirm my-cluster`,
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
