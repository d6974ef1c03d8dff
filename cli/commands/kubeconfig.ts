import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster kubeconfig`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('kubeconfig')
    .description('print the kubeconfig, renew it, or merge it into your own')
    .option('--renew', 'with a new key and certificate; the key never leaves this workstation')
    .option('--merge', 'into the first file of KUBECONFIG, or ~/.kube/config')
    .action(
      action<{ readonly merge?: true; readonly renew?: true }>(async (context, { merge, renew }) => {
        const { renewKubeconfig, runKubeconfig } = await import('../cluster/index.ts');
        if (renew === true) await renewKubeconfig(context);
        return runKubeconfig(context, { merge: merge === true, home: context.env['HOME'] ?? '/' });
      }),
    );
}
