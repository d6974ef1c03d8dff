import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface GenerateFlags {
  readonly ownerKey: readonly string[];
  /** false with --no-tpm. */
  readonly tpm: string | false;
  readonly processor?: string;
  readonly nodeName?: string;
  readonly address?: string;
  readonly joinEndpoint: readonly string[];
  readonly out?: string;
}

/** `cluster provisioning …`. */
export function register(program: Command, action: ActionBinder): void {
  const provisioning = program
    .command('provisioning')
    .description('the file that a machine is given before its agent starts');
  provisioning
    .command('generate')
    .description('print or write a provisioning file; no secret is in it')
    .option(
      '--owner-key <base64>',
      'an owner’s public key; may be repeated; default: the workspace’s',
      collect,
      [],
    )
    .option('--tpm <device>', 'device of the machine’s TPM 2.0', '/dev/tpmrm0')
    .option('--no-tpm', 'the machine has no TPM and shows a key on its disk')
    .addOption(new Option('--processor <kind>', 'a confidential processor').choices(['sev-snp', 'tdx']))
    .option('--node-name <name>', 'name of the node; default: the machine’s hostname')
    .option('--address <ip>', 'address that others reach the machine at; default: its first')
    .option('--join-endpoint <host>', 'a control-plane node to join; may be repeated', collect, [])
    .option('--out <file>', 'write this file (0600) and leave one that exists alone; default: print')
    .addHelpText(
      'after',
      `
Examples:
  cluster provisioning generate > provisioning.json                           at a workstation
  cluster provisioning generate --owner-key KEY --out /etc/cluster/provisioning.json    on a machine

For machines that join a cluster that exists, \`cluster node cloud-init --format provisioning\` knows more.`,
    )
    .action(
      action<GenerateFlags>(async (context, flags) => {
        const { runProvisioningGenerate } = await import('../provisioning/index.ts');
        const { ownerKey, tpm, processor, nodeName, address, joinEndpoint, out } = flags;
        return runProvisioningGenerate(context, {
          ...{ ownerKeys: ownerKey, processor, nodeName, address, joinEndpoints: joinEndpoint, out },
          tpmDevice: tpm === false ? undefined : tpm,
        });
      }),
    );
  provisioning
    .command('validate')
    .description('say what the agent would say of a file; of this machine’s own also whether its TPM answers')
    .argument('[file]', 'default: /etc/cluster/provisioning.json')
    .action(
      action<object>(async (context, _flags, file) =>
        (await import('../provisioning/index.ts')).runProvisioningValidate(context, file),
      ),
    );
  provisioning
    .command('schema')
    .description('print the JSON Schema of the file')
    .action(
      action<object>(async (context) =>
        (await import('../provisioning/index.ts')).runProvisioningSchema(context),
      ),
    );
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
