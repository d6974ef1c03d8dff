import { Option, type Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';

interface ApproveFlags {
  readonly name?: string;
  readonly roles: string;
  readonly label: readonly string[];
}

interface CloudInitFlags {
  readonly endpoint: readonly string[];
  readonly package?: string;
  readonly packageSha256?: string;
  readonly tpm: boolean;
  readonly format: 'cloud-init' | 'provisioning';
}

const WHICH = 'join id, fingerprint or identity, or a beginning of it that is unique';

/** Verbs about machines that are not members yet. */
export function registerNodeJoins(node: Command, action: ActionBinder): void {
  node
    .command('approve')
    .description('let a machine in; compare its fingerprint with the one on its console')
    .argument('<machine>', WHICH)
    .option('--name <name>', 'name of the node; the one the machine wants unless said')
    .option('--roles <roles>', 'control-plane, worker, or both with a comma', 'worker')
    .option('--label <key=value>', 'a label of the node; may be repeated', collect, [])
    .addHelpText(
      'after',
      '\nExamples:\n  cluster node ls --joins\n  cluster node approve sha256:4f1c09ab --name worker-1\n  cluster node approve tpm-ek:90ab12cd --roles control-plane',
    )
    .action(
      action<ApproveFlags>(async (context, { name, roles, label }, machine = '') => {
        const {
          parseLabelChanges,
          parseRoleNames: parseRoleWords,
          runApprove,
        } = await import('../nodes/index.ts');
        return runApprove(context, machine, {
          name,
          roles: parseRoleWords(roles),
          labels: parseLabelChanges(label).set,
        });
      }),
    );
  node
    .command('refuse')
    .description('turn a machine away; it learns that it is refused, not why')
    .argument('<machine>', WHICH)
    .option('--reason <text>', 'for the audit', '')
    .action(
      action<{ readonly reason: string }>(async (context, { reason }, machine = '') =>
        (await import('../nodes/index.ts')).runRefuse(context, machine, { reason }),
      ),
    );
  node
    .command('cloud-init')
    .description('print what a machine must be given to join by itself; no secret is in it')
    .option('--endpoint <host>', 'a control plane; may be repeated; default: all there are now', collect, [])
    .option(
      '--package <url>',
      "the agent's Debian package, for images that lack it: https, http or file:///PATH",
    )
    .option('--package-sha256 <hex>', 'what the package must be; needed with http')
    .option('--no-tpm', 'for machines without a TPM')
    .addOption(
      new Option('--format <format>', 'user data, or the provisioning file alone')
        .choices(['cloud-init', 'provisioning'])
        .default('cloud-init'),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  cluster node cloud-init > user-data\n  cluster node cloud-init --format provisioning > /etc/cluster/provisioning.json',
    )
    .action(
      action<CloudInitFlags>(async (context, flags) =>
        (await import('../nodes/index.ts')).runCloudInit(context, {
          endpoints: flags.endpoint,
          package: flags.package,
          packageSha256: flags.packageSha256,
          tpm: flags.tpm,
          format: flags.format,
        }),
      ),
    );
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
