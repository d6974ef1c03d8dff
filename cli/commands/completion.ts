import { Argument, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { NAME_KINDS, type NameKind } from '../contexts/index.ts';

/** `cluster completion bash|zsh|fish`. The app loads all commands first: the script lists their flags. */
export function register(command: Command, action: ActionBinder): void {
  command
    .addArgument(new Argument('<shell>').choices(['bash', 'zsh', 'fish']))
    .addHelpText(
      'after',
      `
The script also completes names of nodes, contexts and local clusters.

Examples:
  source <(cluster completion bash)
  cluster completion fish > ~/.config/fish/completions/cluster.fish`,
    )
    .action(
      action(async ({ host }, _options, shell) => {
        const { completionScript } = await import('../app/completion.ts');
        const script = completionScript(shell as 'bash' | 'zsh' | 'fish', command.parent ?? command);
        host.result({ shell, script }, () => script);
      }),
    );
  command
    .command('names')
    .description('print names for a completion script, from files only')
    .addArgument(new Argument('<kind>').choices(NAME_KINDS))
    .action(
      action(async (context, _options, kind) =>
        (await import('../contexts/index.ts')).runCompletionNames(context, kind as NameKind),
      ),
    );
}
