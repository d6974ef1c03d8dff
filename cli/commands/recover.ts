import { Option, type Command } from 'commander';
import type { ActionBinder, CommandContext } from '../app/command.ts';
import {
  confirmFrom,
  machineAddress,
  nodeName,
  SKIP_PROMPT,
  tpmIdentity,
  withConfirmFlags,
  type ConfirmFlags,
} from './flags.ts';

interface DiskFlags extends ConfirmFlags {
  readonly address?: string;
  /** true: without a value. */
  readonly console?: string | true;
  readonly machine?: string;
  readonly recoveryKey?: string;
}

const STEPS = `
If most control planes are lost for good and one or more survive:
  1. Shut down every control plane that you will not use.
  2. On a survivor, as root: cluster recover quorum --dry-run
     It shows what would be lost. If another survivor has newer data, it refuses
     and names that one. It needs the agent (systemctl start bootstrapper).
  3. There: cluster recover quorum --confirm CLUSTER-NAME
  4. At the workstation, for each lost control plane:
     cluster node remove NODE --lost
If no control plane survives: cluster restore --help`;

/** `cluster recover …`. */
export function register(command: Command, action: ActionBinder): void {
  command.addHelpText('after', STEPS);
  command
    .command('quorum')
    .description('restore the etcd quorum from this control plane (as root)')
    .option('--confirm <cluster>', 'cluster name: confirms the loss of data on the other nodes')
    .option('--dry-run', 'show the state and what would be lost without changing anything')
    .option(
      '--skip-checks',
      'recover although the data here differs from that of the majority, or the disk is full or read-only',
    )
    .addHelpText(
      'after',
      `
Without --confirm nothing is changed. If several control planes survived, run the
command on any of them: it refuses if another one has newer data, and names it.
Shut the other control planes down first: if they only lost their connection, both
halves would serve the cluster.

Examples:
  cluster recover quorum --dry-run
  cluster recover quorum --confirm my-cluster`,
    )
    .action(
      action<{ readonly confirm?: string; readonly dryRun?: true; readonly skipChecks?: true }>(
        async (context, { confirm, dryRun, skipChecks }) =>
          (await import('../recover/index.ts')).runRecoverQuorum(
            context,
            (doing) => requireSound(context, doing),
            {
              ...{ confirmed: confirm, dryRun: dryRun === true, skipChecks: skipChecks === true },
            },
          ),
      ),
    );
  registerDisk(command, action);
  registerSpace(command, action);
}

async function requireSound(context: CommandContext, doing: string): Promise<void> {
  const { requireSoundMachine } = await import('../doctor/index.ts');
  const { collectOwnFacts, localPortsOf } = await import('../support/index.ts');
  requireSoundMachine(await collectOwnFacts(context, localPortsOf(context)), doing);
}

function registerDisk(command: Command, action: ActionBinder): void {
  withConfirmFlags(
    command
      .command('disk')
      .description('open the state disk of a machine after a change of its software (as an owner)')
      .argument('<node>', 'name of the node', nodeName)
      .option(
        '--address <address>',
        'HOST or HOST:PORT (default: the last known address of the node)',
        machineAddress,
      )
      .option(
        '--machine <identity>',
        'TPM of the machine, tpm-ek:HEX (default: the TPM that this workspace knows)',
        tpmIdentity,
      )
      .option('--recovery-key <file>', 'file with an age identity (default: the recovery key of the owner)')
      .addOption(
        new Option(
          '--console [challenge]',
          'without a network: make the code for the challenge that the console of the machine shows (default: asks for it)',
        ).conflicts(['address', 'machine']),
      ),
  )
    .addHelpText(
      'after',
      `
The state disk of a machine opens only with the TPM and the software to which the
disk was sealed. After an update of the image, of the firmware or of the provisioning
file the machine waits at its init port. The command shows which registers of
the TPM have changed, asks you, and sends the recovery key so that only this TPM
can read it. The disk is then sealed to the registers that the machine has now, and
the machine opens it by itself at its next start. A key that does not open the
disk changes nothing.

If cluster.yaml requires certain measurements, write the new ones there first.

If the provisioning file demands several owners (recoveryThreshold), each of them runs
this command, and the disk opens with the last one. Until then the command ends with
exit code 7 (partly done) and says how many are missing. At the console each owner
makes a code for the same challenge.

A machine without a network shows a challenge on its console. With --console the
command asks for it, and shows a code that you type at that console. The code is for
this challenge only. Nothing proves to the workstation what the machine is: look
at it yourself, and at the registers that its console shows.

Examples:
  cluster recover disk n2 --dry-run
  cluster recover disk n2
  cluster recover disk n2 --address 198.51.100.7 --recovery-key recovery.txt
  cluster recover disk n2 --console`,
    )
    .action(
      action<DiskFlags>(async (context, flags, node = '') => {
        const { address, machine, recoveryKey, console } = flags;
        const { runRecoverAtConsole, runRecoverDisk } = await import('../recover/index.ts');
        const asked = { recoveryKey, ...confirmFrom(flags) };
        if (console === undefined) return runRecoverDisk(context, node, { address, machine, ...asked });
        const challenge = console === true ? undefined : console;
        return runRecoverAtConsole(context, node, { challenge, ...asked });
      }),
    );
}

function registerSpace(command: Command, action: ActionBinder): void {
  withConfirmFlags(
    command
      .command('space')
      .description('free space in both etcd databases when they refuse writes (as root)'),
    SKIP_PROMPT,
  )
    .addHelpText(
      'after',
      `
Compacts the etcd database of the cluster and the etcd database of Kubernetes
(deletes old revisions, but no objects), defragments the etcd members one after
the other, and clears the NOSPACE alarm. Run the command on any control plane,
with etcd running; no other part of the cluster is needed. The command can be
interrupted and run again.

Example:
  cluster recover space`,
    )
    .action(
      action<ConfirmFlags>(async (context, flags) =>
        (await import('../recover/index.ts')).runRecoverSpace(context, confirmFrom(flags)),
      ),
    );
}
