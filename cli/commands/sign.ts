import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { usageError } from '../app/usage.ts';
import { SKIP_PROMPT } from './flags.ts';

interface SignFlags {
  readonly yes?: true;
  readonly out?: string;
}

/** `cluster sign`. */
export function register(command: Command, action: ActionBinder): void {
  command
    .argument('[file]', 'request written with --request-signature (default: sign the current records)')
    .option('--yes', SKIP_PROMPT)
    .option('--out <file>', 'with a request: write what was signed to this new file (default: FILE.signed)')
    .addHelpText(
      'after',
      `
Commands run by an owner sign their own changes. With a file, an owner signs
what an operator without an owner key asks for. This needs no connection to
the cluster; the operator then runs the same command with --signed.

Without a file, the current records are signed. Use this for records without a
valid signature: after an upgrade from a version without signatures, after a
quorum recovery, or when a signature has expired. Check the records first:
  cluster config show
  cluster operator ls
  cluster node ls

Example:
  # an operator
  cluster node approve tpm-ek:90ab --roles control-plane \\
    --request-signature n4.request
  # an owner, who receives n4.request and sends back n4.request.signed
  cluster sign n4.request
  # the operator
  cluster node approve tpm-ek:90ab --roles control-plane \\
    --signed n4.request.signed`,
    )
    .action(
      action<SignFlags>(async (context, { yes = false, out }, file) => {
        const { runSign, runSignRequest } = await import('../sign/index.ts');
        if (file !== undefined) return runSignRequest(context, file, { yes, out });
        if (out !== undefined) throw usageError('--out without a request', 'sign');
        return runSign(context, { yes });
      }),
    );
}
