import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster kubeconfig`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('kubeconfig')
    .description('print the kubeconfig, or merge it into your own')
    .option('--merge', 'into the first file of KUBECONFIG, or ~/.kube/config')
    .action(
      action<{ readonly merge?: true }>(async (context, { merge }) => {
        const { runKubeconfig } = await import('../cluster/index.ts');
        return runKubeconfig(context, { merge: merge === true, home: context.env['HOME'] ?? '/' });
      }),
    );
}
