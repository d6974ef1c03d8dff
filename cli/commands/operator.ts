import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface AddFlags {
  readonly role: string;
  readonly request: string;
  readonly out?: string;
}

/** `cluster operator …`. */
export function register(program: Command, action: ActionBinder): void {
  const operator = program
    .command('operator')
    .description('who may look at the cluster, steer it, and own it');
  operator
    .command('ls')
    .description('all of them with their keys')
    .action(action<object>(async (context) => (await import('../admin/index.ts')).runOperatorList(context)));
  operator
    .command('add')
    .description('let somebody in, or change the role or key of one; prints the certificate')
    .argument('<name>')
    .addOption(
      new Option('--role <role>', 'viewer looks, operator steers, owner also decides who does')
        .choices(['viewer', 'operator', 'owner'])
        .makeOptionMandatory(),
    )
    .requiredOption('--request <file>', 'PEM certificate request; the key stays with whoever made it')
    .option('--out <file>', 'write the certificate there')
    .addHelpText(
      'after',
      '\nExample:\n  openssl req -new -newkey ed25519 -nodes -keyout ann.key -subj /CN=ann -out ann.csr\n  cluster operator add ann --role operator --request ann.csr --out ann.crt',
    )
    .action(
      action<AddFlags>(async (context, { role, request, out }, name = '') =>
        (await import('../admin/index.ts')).runOperatorAdd(context, name, { role, request, out }),
      ),
    );
  operator
    .command('remove')
    .description('refuse the key of somebody from now on; the last owner stays')
    .argument('<name>')
    .action(
      action<object>(async (context, _flags, name = '') =>
        (await import('../admin/index.ts')).runOperatorRemove(context, name),
      ),
    );
}
