import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

/** `cluster help [TOPIC|COMMAND] [CODE]`. */
export function register(program: Command, action: ActionBinder): void {
  program
    .command('help')
    .description('explain a command, the exit codes or an error code')
    .argument('[topic]', 'a command, `exit-codes` or `errors`')
    .argument('[code]', 'an error code, with `errors`')
    .action(
      action<object>(async ({ host }, _options, topic, code) => {
        if (topic === 'exit-codes' || topic === 'errors') {
          const { explainErrors, explainExitCodes } = await import('../app/explain.ts');
          return topic === 'exit-codes' ? explainExitCodes(host) : explainErrors(host, code);
        }
        const found = program.commands.find((command) => command.name() === topic);
        (found ?? program).outputHelp();
        if (topic === undefined || found !== undefined) return;
        host.warn('help-unknown-topic', `there is no command and no topic ${topic}`);
        return 'usage';
      }),
    );
}
