import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { YES } from './texts.ts';

interface AddFlags {
  readonly role: string;
  readonly request: string;
  readonly out?: string;
}

interface RemoveFlags {
  readonly dryRun?: true;
  readonly yes?: true;
}

/** `cluster operator …`. */
export function register(program: Command, action: ActionBinder): void {
  const operator = program
    .command('operator')
    .description('who may look at the cluster, steer it, and own it');
  operator
    .command('ls')
    .description('all of them with their keys')
    .action(action<object>(async (context) => (await import('../nodes/index.ts')).runOperatorList(context)));
  registerOwn(operator, action);
  operator
    .command('add')
    .description('let somebody in, or change the role or key of one; prints the grant')
    .argument('<name>')
    .addOption(
      new Option('--role <role>', 'viewer looks, operator steers, owner also decides who does')
        .choices(['viewer', 'operator', 'owner'])
        .makeOptionMandatory(),
    )
    .requiredOption(
      '--request <file>',
      'what `cluster operator key` wrote; the key stays with whoever made it',
    )
    .option('--out <file>', 'write the grant there: what `cluster operator accept` takes; no secret is in it')
    .addHelpText(
      'after',
      '\nExample:\n  cluster operator add ann --role operator --request ann.csr --out ann.grant',
    )
    .action(
      action<AddFlags>(async (context, { role, request, out }, name = '') =>
        (await import('../nodes/index.ts')).runOperatorAdd(context, name, { role, request, out }),
      ),
    );
  operator
    .command('remove')
    .description('refuse the key of somebody from now on; the last owner stays')
    .argument('<name>')
    .option('--dry-run', 'say what would be lost and do nothing')
    .option('-y, --yes', YES)
    .action(
      action<RemoveFlags>(async (context, { dryRun, yes }, name = '') =>
        (await import('../nodes/index.ts')).runOperatorRemove(context, name, {
          dryRun: dryRun === true,
          yes: yes === true,
        }),
      ),
    );
}

/** What operators do at their own workstation. */
function registerOwn(operator: Command, action: ActionBinder): void {
  operator
    .command('key')
    .description('make yourself a key, and the request that an owner answers')
    .argument('<name>')
    .option('--request <file>', 'write the request there; NAME.csr in the workspace unless said')
    .addHelpText(
      'after',
      '\nExample, on your own workstation:\n  cluster operator key ann\n  cluster operator accept ann.grant     with what the owner sent back',
    )
    .action(
      action<{ readonly request?: string }>(async (context, { request }, name = '') =>
        (await import('../nodes/index.ts')).runOperatorKey(context, name, { request }),
      ),
    );
  operator
    .command('accept')
    .description('take what an owner answered into your identity')
    .argument('<grant>', 'the file that `cluster operator add` wrote')
    .action(
      action<object>(async (context, _flags, grant = '') =>
        (await import('../nodes/index.ts')).runOperatorAccept(context, grant),
      ),
    );
}
