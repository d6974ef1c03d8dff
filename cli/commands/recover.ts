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
  command
    .command('space')
    .description('free space in both etcd databases when they refuse writes (as root)')
    .addHelpText(
      'after',
      `
Compacts both etcd databases, that of the cluster and that of Kubernetes (old
revisions are deleted, no object is), defragments their members one after the
other, and clears the NOSPACE alarm. Run it on any control plane, with etcd
running; it needs no other part of the cluster. It can be interrupted and run
again.

Example:
  cluster recover space`,
    )
    .action(
      action<object>(async (context) => (await import('../recover/index.ts')).runRecoverSpace(context)),
    );
}
