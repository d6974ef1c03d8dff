import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { commandPath, findCommand } from '../app/find-command.ts';
import { usageError } from '../app/usage.ts';

/** `cluster help [TOPIC|COMMAND…] [CODE]`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('[words...]', 'a command, `exit-codes`, `errors`, or `errors` and a code')
    .addHelpText('after', '\nExamples:\n  cluster help node label\n  cluster help errors workspace-locked')
    .action(
      action(async ({ host }, _options, ...words) => {
        const [topic, code] = words;
        if (topic === 'exit-codes' || topic === 'errors') {
          const { explainErrors, explainExitCodes } = await import('../app/explain.ts');
          return topic === 'exit-codes' ? explainExitCodes(host) : explainErrors(host, code);
        }
        const { found, unknown } = findCommand(command.parent ?? command, words);
        if (unknown === undefined) return found.outputHelp();
        throw usageError(`unknown command or help topic ${JSON.stringify(unknown)}`, commandPath(found));
      }),
    );
}
