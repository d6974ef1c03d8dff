import { InvalidArgumentError, type Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { ChosenMachine } from '../../nodes/index.ts';
import { confirmFrom, fingerprintValue, nodeName, withConfirmFlags, type ConfirmFlags } from '../flags.ts';

interface RestoreFlags extends ConfirmFlags {
  readonly ownerKey?: string;
  readonly node?: string;
  readonly fingerprint?: string;
  readonly controlPlane?: readonly ChosenMachine[];
  readonly keepWorker?: readonly string[];
  readonly removedMachines?: readonly string[];
  readonly recoveryKey?: string;
  readonly workDir?: string;
  readonly acceptOlderEpoch?: true;
}

/** Parser of a flag NAME=FINGERPRINT that may be repeated. */
function chosenMachine(text: string, before: readonly ChosenMachine[] = []): readonly ChosenMachine[] {
  const [name = '', fingerprint = ''] = text.split(/=(.*)/s);
  const machine = { name: nodeName(name), fingerprint: fingerprintValue(fingerprint) };
  if (before.some((each) => each.name === machine.name || each.fingerprint === machine.fingerprint))
    throw new InvalidArgumentError('Must name each machine once.');
  return [...before, machine];
}

const HELP = `
Needs the workspace of the cluster. If it is lost, the backup and the owner key are
enough: --owner-key creates the workspace in an empty directory, or in one that has
only owner-key.pem. Without the workspace, --node is needed. The file is verified and
restored into an empty etcd on this workstation before the machine is touched, with
the bundle of its version of Kubernetes (cluster backup show names the version).
--dry-run verifies the file and shows what a restore takes away. If the command is
interrupted, run it again: it resumes.

The cluster keeps its ID and its keys and gets a new epoch. All other machines of
the old cluster are refused until an owner readmits them (cluster node readmit).
Removals since the backup are known from this workspace. Other owners have theirs in
removed-machines.json of their workspaces: name these files with --removed-machines.
Workers of --keep-worker report those that they know when they return.
Volumes are not part of a backup. Operators are added again by an owner. The old
control planes have the keys too: replace them (cluster keys rotate) when the
machines that you keep are back.

A backup from before a recovery or restore that this workspace knows of is
refused, because what the cluster did since then would be lost. With
--accept-older-epoch it is restored, in an epoch above all known ones. With the
--fingerprint of another machine, the restore begins again on that machine.

A machine of --control-plane asks the first machine to join: its provisioning file
names the owner and FIRST:9090 as a join endpoint. The command compares its
fingerprint, signs its place as the owner, and waits until it is a ready control
plane. It may be a machine of the old cluster that was reset.

A worker of --keep-worker goes on with its pods, without a reset: name only machines
that you trust. It finds the restored cluster by the join endpoints of its provisioning
file: if none of them is a new control plane, change that file and restart
bootstrapper.service on the worker; its pods keep running. Workers cannot be kept
if the shared keys were rotated after the backup.

Examples:
  cluster restore blue.backup --node 10.0.0.21 --fingerprint sha256:4f1c…
  cluster restore blue.backup --node 10.0.0.21 --fingerprint sha256:4f1c… \\
    --control-plane n2=sha256:90ab… --control-plane n3=sha256:77de…
  cluster restore blue.backup --node 10.0.0.21 --fingerprint sha256:4f1c… \\
    --keep-worker w1
  cluster restore blue.backup --node 10.0.0.21 --fingerprint sha256:4f1c… \\
    --workspace new --owner-key owner-key.pem`;

/** `cluster restore`. */
export function register(command: Command, action: ActionBinder): void {
  withConfirmFlags(
    command
      .argument('<file>', 'backup file')
      .option('--owner-key <file>', 'file with the owner key: creates the workspace from the backup')
      .option('--node <address>', 'address of a fresh machine: HOST or HOST:PORT')
      .option('--fingerprint <sha256>', 'fingerprint shown on the console of the machine', fingerprintValue)
      .option(
        '--control-plane <name=fingerprint>',
        'further fresh machine that becomes a control plane; may be repeated',
        chosenMachine,
      )
      .option(
        '--keep-worker <node>',
        'worker that still runs: it stays a member and keeps its pods; may be repeated',
        (name: string, before: readonly string[] = []) => [...before, nodeName(name)],
      )
      .option(
        '--removed-machines <file>',
        'removed-machines.json of another workspace: these machines are refused too; may be repeated',
        (file: string, before: readonly string[] = []) => [...before, file],
      )
      .option('--recovery-key <file>', 'file with an age identity (default: the recovery key of the owner)')
      .option('--work-dir <directory>', 'directory for the decrypted data (default: /dev/shm)')
      .option(
        '--accept-older-epoch',
        'restore a backup from before a known recovery or restore of the cluster',
      ),
  )
    .addHelpText('after', HELP)
    .action(
      action<RestoreFlags>(async (context, { acceptOlderEpoch, ...flags }, file = '') =>
        (await import('../../backup/index.ts')).runRestore(context, file, {
          ...{ ownerKey: flags.ownerKey, node: flags.node, fingerprint: flags.fingerprint },
          ...{ controlPlanes: flags.controlPlane ?? [], keepWorkers: flags.keepWorker ?? [] },
          removedMachines: flags.removedMachines ?? [],
          ...{ recoveryKey: flags.recoveryKey, workDir: flags.workDir },
          ...{ acceptOlderEpoch: acceptOlderEpoch === true, ...confirmFrom(flags) },
        }),
      ),
    );
}
