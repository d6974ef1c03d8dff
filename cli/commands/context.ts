import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { nodeName } from './flags.ts';

const useCases = () => import('../contexts/index.ts');
const NAME = 'name of the context';

/** `cluster context …`. */
export function register(context: Command, action: ActionBinder): void {
  context.addHelpText(
    'after',
    `
A command uses the workspace of --context; else that of --workspace or
$CLUSTER_WORKSPACE; else the current directory, if it is a workspace; else the
workspace of the current context. Local clusters have contexts mini/NAME.

Examples:
  cluster context add prod ~/clusters/prod
  cluster context use prod
  cluster --context mini/demo status`,
  );
  context
    .command('ls')
    .description('list contexts')
    .action(action(async (given) => (await useCases()).runContextList(given)));
  context
    .command('add')
    .description('give a workspace a name')
    .argument('<name>', NAME, nodeName)
    .argument('[directory]', 'the workspace (default: that of this command)')
    .action(
      action(async (given, _flags, name = '', directory) =>
        (await useCases()).runContextAdd(given, name, directory),
      ),
    );
  context
    .command('use')
    .description('choose the context of commands outside of a workspace')
    .argument('<context>', NAME)
    .action(action(async (given, _flags, name = '') => (await useCases()).runContextUse(given, name)));
  context
    .command('remove')
    .description('remove the name; the workspace stays')
    .argument('<context>', NAME)
    .action(action(async (given, _flags, name = '') => (await useCases()).runContextRemove(given, name)));
}
