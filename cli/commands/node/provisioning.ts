import { Option, type Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { GenerateProvisioningOptions } from '../../provisioning/index.ts';
import { collect, wholeNumber } from '../flags.ts';
import { formatOption, PACKAGE, PACKAGE_SHA256 } from './user-data-flags.ts';

type Renamed = 'ownerKeys' | 'tpmDevice' | 'joinEndpoints' | 'recoveryRecipients';

interface GenerateFlags extends Omit<GenerateProvisioningOptions, Renamed> {
  readonly ownerKey?: readonly string[];
  /** false with --no-tpm. */
  readonly tpm: string | false;
  readonly joinEndpoint?: readonly string[];
  readonly recoveryRecipient?: readonly string[];
}

const useCases = () => import('../../provisioning/index.ts');

/** `cluster provisioning …`. */
export function register(provisioning: Command, action: ActionBinder): void {
  registerGenerate(provisioning, action);
  provisioning
    .command('validate')
    .description('validate a provisioning file')
    .argument('[file]', 'file to validate (default: /etc/cluster/provisioning.json)')
    .addHelpText(
      'after',
      '\nFor the file of this machine, the command also checks that the TPM responds\nand that the state disk exists.',
    )
    .action(
      action(async (context, _flags, file) => (await useCases()).runProvisioningValidate(context, file)),
    );
  provisioning
    .command('schema')
    .description('print the JSON Schema of the provisioning file')
    .action(action(async (context) => (await useCases()).runProvisioningSchema(context)));
}

function registerGenerate(provisioning: Command, action: ActionBinder): void {
  provisioning
    .command('generate')
    .description('generate the provisioning file of a machine')
    .option(
      '--owner-key <base64>',
      'public key of an owner, not the file owner-key.pem; may be repeated (default: the workspace’s)',
      collect,
    )
    .option('--tpm <device>', 'TPM 2.0 device of the machine', '/dev/tpmrm0')
    .option('--no-tpm', 'the machine has no TPM; it identifies itself by a key on its disk')
    .addOption(
      new Option('--processor <kind>', 'confidential computing technology of the machine').choices([
        'sev-snp',
        'tdx',
      ]),
    )
    .option('--node-name <name>', 'node name (default: hostname of the machine)')
    .option('--address <ip>', 'address at which other nodes reach the machine (default: its first address)')
    .option('--join-endpoint <host>', 'control-plane node to join; may be repeated', collect)
    .option('--state-disk <device>', 'block device of the encrypted state disk (default: none)')
    .option(
      '--state-disk-pcrs <list>',
      'PCRs to which the state disk is sealed, like 4,7,9 (default: 7)',
      parsePcrs,
    )
    .option('--no-state-disk-integrity', 'encrypt sectors without authenticating them')
    .option('--recovery-recipient <age1…>', 'key that also recovers the disk; may be repeated', collect)
    .option(
      '--recovery-threshold <number>',
      'how many of these keys recover the disk together (default: each alone)',
      wholeNumber(1, 999),
    )
    .addOption(formatOption('provisioning'))
    .option('--package <url>', PACKAGE)
    .option('--package-sha256 <hex>', PACKAGE_SHA256)
    .option('--out <file>', 'write to this new file, mode 0600 (default: print)')
    .addHelpText(
      'after',
      `
The file contains no secret. With --state-disk, the machine encrypts the given disk, and
the owner key of the workspace recovers it if the TPM does not open it. For machines that join an existing cluster, use
\`cluster node cloud-init --format provisioning\`: it fills in more values.

Examples:
  cluster provisioning generate > provisioning.json
  cluster provisioning generate --owner-key KEY \\
    --out /etc/cluster/provisioning.json
  cluster provisioning generate --format cloud-init > user-data`,
    )
    .action(
      action<GenerateFlags>(async (context, flags) => {
        const { ownerKey: ownerKeys = [], tpm, joinEndpoint: joinEndpoints = [], ...others } = flags;
        const { recoveryRecipient: recoveryRecipients = [], ...rest } = others;
        const tpmDevice = tpm === false ? undefined : tpm;
        const options = { ownerKeys, tpmDevice, joinEndpoints, recoveryRecipients, ...rest };
        return (await useCases()).runProvisioningGenerate(context, options);
      }),
    );
}

/** "4,7,9"; the schema of the file decides which numbers are PCRs. */
function parsePcrs(text: string): readonly number[] {
  return text.split(',').map((each) => (/^\d{1,2}$/.test(each) ? Number(each) : Number.NaN));
}
