import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster version`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .addHelpText(
      'after',
      `
Shows the version of this program and which versions of Kubernetes it supports;
with a cluster also its bundle, and the versions of agent and Kubernetes on each
node. \`cluster --version\` prints only the version of this program.`,
    )
    .action(action(async (context) => (await import('../cluster/index.ts')).runVersion(context)));
}
