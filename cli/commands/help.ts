import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster help [TOPIC|COMMAND…] [CODE]`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('help')
    .description('show help for a command, exit codes or error codes')
    .argument('[words...]', 'a command, `exit-codes`, `errors`, or `errors` and a code')
    .addHelpText('after', '\nExamples:\n  cluster help node label\n  cluster help errors workspace-locked')
    .action(
      action<object>(async ({ host }, _options, ...words) => {
        const [topic, code] = words;
        if (topic === 'exit-codes' || topic === 'errors') {
          const { explainErrors, explainExitCodes } = await import('../app/explain.ts');
          return topic === 'exit-codes' ? explainExitCodes(host) : explainErrors(host, code);
        }
        const { found, unknown } = commandAt(program, words);
        if (unknown === undefined) return found.outputHelp();
        found.outputHelp({ error: true });
        host.warn('help-unknown-topic', `unknown command or help topic ${JSON.stringify(unknown)}`);
        return 'usage';
      }),
    );
}

/** The command that the words name, and the first word that names no command. */
function commandAt(
  program: Command,
  words: readonly string[],
): { readonly found: Command; readonly unknown: string | undefined } {
  let found = program;
  for (const word of words) {
    const next = found.commands.find((command) => command.name() === word);
    if (next === undefined) return { found, unknown: word };
    found = next;
  }
  return { found, unknown: undefined };
}
