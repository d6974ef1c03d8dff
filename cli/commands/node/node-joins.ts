import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import type { CloudInitOptions } from '../../cloudinit/index.ts';
import {
  collect,
  nodeName,
  signatureFrom,
  timeoutOption,
  withSignatureFlags,
  type SignatureFlags,
} from '../flags.ts';
import { guard, withSkipChecks, type GuardFlags } from '../guard.ts';
import { formatOption, PACKAGE, PACKAGE_SHA256 } from './user-data-flags.ts';

interface ApproveFlags extends SignatureFlags, GuardFlags {
  readonly name?: string;
  readonly roles: string;
  readonly label?: readonly string[];
  readonly taint?: readonly string[];
  readonly wait?: true;
  readonly timeout: number;
}

interface CloudInitFlags extends Omit<CloudInitOptions, 'endpoints'> {
  readonly endpoint?: readonly string[];
}

const DEFAULT_WAIT_MS = 10 * 60 * 1000;
const MACHINE = 'join ID, fingerprint or identity, or a unique prefix of one';
const useCases = () => import('../../nodes/index.ts');

/** Adds the subcommands for machines that are not members yet. */
export function registerNodeJoins(node: Command, action: ActionBinder): void {
  withSkipChecks(
    withSignatureFlags(
      node
        .command('approve')
        .description('admit a machine that asked to join')
        .argument('<machine>', MACHINE)
        .option('--name <name>', 'node name (default: the name the machine requests)', nodeName)
        .option('--roles <roles>', 'control-plane, worker, or both (comma-separated)', 'worker')
        .option('--label <key=value>', 'node label; may be repeated', collect)
        .option('--taint <key=value:effect>', 'node taint; may be repeated', collect)
        .option('--wait', 'wait until the machine is a ready node of Kubernetes')
        .addOption(timeoutOption('time limit for --wait', DEFAULT_WAIT_MS)),
    ),
  )
    .addHelpText(
      'after',
      `
Compare the fingerprint with the fingerprint on the console of the machine first.

A further control plane is refused while the doctor finds a problem that it would
make worse: a voter of etcd that does not respond, a learner that is not promoted,
a wrong clock, a disk that is full or read-only.

Examples:
  cluster node ls --joins
  cluster node approve sha256:4f1c09ab --name worker-1
  cluster node approve tpm-ek:90ab12cd --roles control-plane --wait`,
    )
    .action(
      action<ApproveFlags>(async (context, flags, machine = '') => {
        const { name, roles, label = [], taint = [], wait, timeout } = flags;
        const { parseLabelChanges, parseRoleNames, parseTaints, runApprove } = await useCases();
        const roleNames = parseRoleNames(roles);
        const change = { doing: `approving machine ${machine}`, action: 'member-joins', node: '' } as const;
        return runApprove({ ...context, ...signatureFrom(flags) }, machine, {
          name,
          roles: roleNames,
          ...(roleNames.includes('control-plane') && {
            requireSafe: () => guard(context, flags, change),
          }),
          labels: parseLabelChanges(label).set,
          taints: parseTaints(taint),
          waitMs: wait === true ? timeout : undefined,
        });
      }),
    );
  node
    .command('refuse')
    .description('refuse a machine that asked to join')
    .argument('<machine>', MACHINE)
    .option('--reason <text>', 'reason for the audit log; the machine is not told')
    .action(
      action<{ readonly reason?: string }>(async (context, { reason = '' }, machine = '') =>
        (await useCases()).runRefuse(context, machine, { reason }),
      ),
    );
  registerCloudInit(node, action);
}

function registerCloudInit(node: Command, action: ActionBinder): void {
  node
    .command('cloud-init')
    .description('generate cloud-init user data for machines that join')
    .option('--endpoint <host>', 'control-plane node; may be repeated (default: all current ones)', collect)
    .option('--package <url>', PACKAGE)
    .option('--package-sha256 <hex>', PACKAGE_SHA256)
    .option('--no-tpm', 'for machines without a TPM')
    .addOption(formatOption('cloud-init'))
    .addHelpText(
      'after',
      `
The output contains no secret. Images that already contain the agent need no
--package.

Examples:
  cluster node cloud-init > user-data
  cluster node cloud-init --format provisioning > provisioning.json`,
    )
    .action(
      action<CloudInitFlags>(async (context, { endpoint: endpoints = [], ...flags }) =>
        (await import('../../cloudinit/index.ts')).runCloudInit(context, { endpoints, ...flags }),
      ),
    );
}
