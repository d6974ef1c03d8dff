import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { apiServerUrl } from './flags.ts';

interface Flags {
  readonly merge?: true;
  readonly renew?: true;
  readonly server?: string;
}

/** `cluster kubeconfig`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .option('--renew', 'create a new key and certificate; the key stays on this workstation')
    .option(
      '--server <url>',
      'write this API server into the kubeconfig, for example because the named one is off',
      apiServerUrl,
    )
    .option('--merge', 'merge into the first other file of $KUBECONFIG, or ~/.kube/config')
    .action(
      action<Flags>(async (context, { merge, renew, server }) => {
        const { changeServer, renewKubeconfig, runKubeconfig } = await import('../cluster/index.ts');
        if (renew === true) await renewKubeconfig(context);
        if (server !== undefined) await changeServer(context, server);
        const isChanged = renew === true || server !== undefined;
        return runKubeconfig(context, {
          merge: merge === true,
          isChanged,
          home: context.env['HOME'] ?? '/',
        });
      }),
    );
}
