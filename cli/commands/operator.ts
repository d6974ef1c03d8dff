import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import type { OperatorOptions } from '../operators/index.ts';
import {
  confirmFrom,
  signatureFrom,
  withConfirmFlags,
  withSignatureFlags,
  type ConfirmFlags,
  type SignatureFlags,
} from './flags.ts';

const useCases = () => import('../operators/index.ts');

/** `cluster operator …`. */
export function register(operator: Command, action: ActionBinder): void {
  operator
    .command('ls')
    .description('list operators')
    .action(action(async (context) => (await useCases()).runOperatorList(context)));
  registerIdentity(operator, action);
  withSignatureFlags(
    operator
      .command('add')
      .description('add an operator, or change the role or key of one')
      .argument('<name>', 'operator name')
      .addOption(
        new Option('--role <role>', 'viewer: read; operator: also change; owner: also manage operators')
          .choices(['viewer', 'operator', 'owner'])
          .makeOptionMandatory(),
      )
      .requiredOption('--request <file>', 'request file written by `cluster operator key`')
      .option('--out <file>', 'write the grant to this file (default: print it)'),
  )
    .addHelpText(
      'after',
      `
Send the grant to the operator, for \`cluster operator accept\`. It contains
no secret.

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
