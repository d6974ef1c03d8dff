import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { collect, wholeNumber } from './flags.ts';

const useCases = () => import('../support/index.ts');

interface BundleFlags {
  readonly to: string;
  readonly recipient?: readonly string[];
  readonly lines: number;
}

/** `cluster support …`. */
export function register(support: Command, action: ActionBinder): void {
  support
    .command('bundle')
    .description('collect what an expert needs to find a cause, without secrets')
    .argument('[node...]', 'logs and metrics of these nodes only (default: all)')
    .requiredOption('--to <file>', 'file to write')
    .option('--recipient <age1…>', 'recovery key that opens the file; may be repeated', collect)
    .option('--lines <n>', 'lines of each log, at most 10000', wholeNumber(1, 10_000), 2_000)
    .addHelpText(
      'after',
      `
Contains the doctor's facts and findings, the records of nodes and joins, logs
of the agent and of units, metrics, the configuration without chart values, and
states and events of Kubernetes. Secrets, ConfigMaps, environment variables,
arguments and annotations are not read; text that looks like a secret is
removed. What cannot be collected is listed with its reason.

The file is encrypted in the age format to the recovery key of the owner and to
each --recipient; an operator names at least one --recipient.

Examples:
  cluster support bundle --to blue.support
  cluster support bundle n2 --to blue.support --recipient age1qyqszq…`,
    )
    .action(
      action<BundleFlags>(async (context, { to, recipient = [], lines }, ...nodes) =>
        (await useCases()).runSupportBundle(context, { to, recipients: recipient, lines }, nodes),
      ),
    );
  support
    .command('open')
    .description('decrypt a support bundle and check its facts as `cluster doctor` does')
    .argument('<file>', 'support bundle')
    .option('--to <directory>', 'also unpack it into this new directory')
    .option('--recovery-key <file>', 'file with an age identity (default: the recovery key of the owner)')
    .addHelpText(
      'after',
      `
Needs no cluster; with --recovery-key it needs no workspace either. Exit codes
are those of \`cluster doctor\`.`,
    )
    .action(
      action<{ readonly to?: string; readonly recoveryKey?: string }>(async (context, options, file = '') =>
        (await useCases()).runSupportOpen(context, file, options),
      ),
    );
}
