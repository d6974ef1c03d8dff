import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { usageError } from '../app/usage.ts';
import { collect, wholeNumber } from './flags.ts';

const useCases = () => import('../support/index.ts');

interface BundleFlags {
  readonly to: string;
  readonly recipient?: readonly string[];
  readonly lines: number;
  readonly local?: true;
}

/** `cluster support …`. */
export function register(support: Command, action: ActionBinder): void {
  support
    .command('bundle')
    .description('collect what an expert needs to find a cause, without secrets')
    .argument('[node...]', 'logs and metrics of these nodes only (default: all)')
    .requiredOption('--to <file>', 'file to write')
    .option('--recipient <age1…>', 'recovery key that opens the file; may be repeated', collect)
    .option('--local', 'collect on this machine, as root, without the cluster')
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

With --local, the command runs as root on a machine whose agent, etcd, API
server or network is down, and needs no workspace. It collects what the machine
itself knows: logs of units and of the cluster's own pods, metrics, addresses
and routes, the checks of \`cluster preflight\`, and what still responds. The
file is encrypted to each --recipient and to the recovery keys that the owner
has named for the state disk. Keep it on another file system if the disk is
full: --to /run/n1.support.

Examples:
  cluster support bundle --to blue.support
  cluster support bundle --local --to n1.support --recipient age1qyqszq…
  cluster support bundle n2 --to blue.support --recipient age1qyqszq…`,
    )
    .action(
      action<BundleFlags>(async (context, { to, recipient: recipients = [], lines, local }, ...nodes) => {
        if (local !== true)
          return (await useCases()).runSupportBundle(context, { to, recipients, lines }, nodes);
        if (nodes.length > 0) throw usageError('--local takes no names of nodes', 'support bundle');
        const { localPortsOf, runLocalSupportBundle } = await useCases();
        return runLocalSupportBundle(context, localPortsOf(context), { to, recipients, lines });
      }),
    );
  registerOpen(support, action);
}

function registerOpen(support: Command, action: ActionBinder): void {
  support
    .command('recipient')
    .description('print the recovery key of the owner, to which others can encrypt')
    .addHelpText(
      'after',
      `
The key is public. It is the --recipient of \`cluster support bundle --local\`
on a machine.`,
    )
    .action(action(async (context) => (await useCases()).showRecipient(context)));
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
