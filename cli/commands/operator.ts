import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import type { OperatorOptions } from '../operators/index.ts';
import {
  confirmFrom,
  signatureFrom,
  SKIP_PROMPT,
  withConfirmFlags,
  withSignatureFlags,
  type ConfirmFlags,
  type SignatureFlags,
} from './flags.ts';

const useCases = () => import('../operators/index.ts');

/** Help text of `--yes`: a new operator, a repeated command and a higher role need no confirmation. */
const ADD_PROMPT = `${SKIP_PROMPT}; required without a terminal if a key is replaced or a role lowered`;

/** `cluster operator …`. */
export function register(operator: Command, action: ActionBinder): void {
  operator
    .command('ls')
    .description('list operators')
    .action(action(async (context) => (await useCases()).runOperatorList(context)));
  registerIdentity(operator, action);
  const add = operator
    .command('add')
    .description('add an operator, or change the role or key of one')
    .argument('<name>', 'operator name')
    .addOption(
      new Option('--role <role>', 'viewer: read; operator: also change; owner: also manage operators')
        .choices(['viewer', 'operator', 'owner'])
        .makeOptionMandatory(),
    )
    .requiredOption('--request <file>', 'request file written by `cluster operator key`')
    .option('--out <file>', 'write the grant to this file (default: print it)');
  withSignatureFlags(withConfirmFlags(add, ADD_PROMPT))
    .addHelpText(
      'after',
      `
Send the grant to the operator, for \`cluster operator accept\`. It contains
no secret.

If the name exists, another key replaces the key on record, which then gives no
access. The command asks before that, and before it lowers the role.

Example:
  cluster operator add ann --role operator --request ann.csr --out ann.grant`,
    )
    .action(
      action<OperatorOptions & SignatureFlags>(async (context, flags, name = '') =>
        (await useCases()).runOperatorAdd({ ...context, ...signatureFrom(flags) }, name, flags),
      ),
    );
  withSignatureFlags(
    withConfirmFlags(
      operator
        .command('remove')
        .description('remove an operator; the last owner cannot be removed')
        .argument('<name>', 'operator name'),
    ),
  ).action(
    action<ConfirmFlags & SignatureFlags>(async (context, flags, name = '') => {
      const own = { ...context, ...signatureFrom(flags) };
      return (await useCases()).runOperatorRemove(own, name, confirmFrom(flags));
    }),
  );
}

/** What operators run on their own workstation. */
function registerIdentity(operator: Command, action: ActionBinder): void {
  operator
    .command('key')
    .description('create your own key and a request for an owner')
    .argument('<name>', 'operator name')
    .option('--request <file>', 'write the request to this file (default: NAME.csr)')
    .option('--passphrase', 'encrypt the key with a new passphrase')
    .addHelpText(
      'after',
      `
Run on your own workstation; the key never leaves it.

Example:
  cluster operator key ann
  # send ann.csr to an owner, who sends back ann.grant
  cluster operator accept ann.grant`,
    )
    .action(
      action<{ readonly request?: string; readonly passphrase?: true }>(async (context, options, name = '') =>
        (await useCases()).runOperatorKey(context, name, options),
      ),
    );
  operator
    .command('accept')
    .description('add the grant of an owner to your identity')
    .argument('<grant>', 'grant file written by `cluster operator add`')
    .action(
      action(async (context, _flags, grant = '') => (await useCases()).runOperatorAccept(context, grant)),
    );
}
