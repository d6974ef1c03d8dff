import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster kubeconfig`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--renew', 'create a new key and certificate; the key stays on this workstation')
    .option('--merge', 'merge into the first file of $KUBECONFIG, or ~/.kube/config')
    .action(
      action<{ readonly merge?: true; readonly renew?: true }>(async (context, { merge, renew }) => {
        const { renewKubeconfig, runKubeconfig } = await import('../cluster/index.ts');
        if (renew === true) await renewKubeconfig(context);
        return runKubeconfig(context, { merge: merge === true, home: context.env['HOME'] ?? '/' });
      }),
    );
}
