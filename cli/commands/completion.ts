import { Argument, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster completion bash|zsh|fish`. The app loads all commands first: the script lists their flags. */
export function register(command: Command, action: ActionBinder): void {
  command
    .addArgument(new Argument('<shell>').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', '\nExample:\n  source <(cluster completion bash)')
    .action(
      action(async ({ host }, _options, shell) => {
        const { completionScript } = await import('../app/completion.ts');
        const script = completionScript(shell as 'bash' | 'zsh' | 'fish', command.parent ?? command);
        host.result({ shell, script }, () => script);
      }),
    );
}
