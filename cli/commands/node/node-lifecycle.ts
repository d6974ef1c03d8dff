import type { Command } from 'commander';
import type { ActionBinder } from '../../app/command.ts';
import {
  confirmFrom,
  durationOption,
  signatureFrom,
  timeoutOption,
  withConfirmFlags,
  withSignatureFlags,
  type ConfirmFlags,
  type SignatureFlags,
} from '../flags.ts';
import { guard, withGuardFlags, type GuardFlags } from '../guard.ts';

interface DrainFlags {
  readonly force?: boolean;
  readonly deleteEmptydirData?: boolean;
  readonly timeout: number;
}

interface RoleFlags extends DrainFlags, ConfirmFlags, SignatureFlags, GuardFlags {
  readonly controlPlane?: true;
  readonly worker?: true;
}

interface RemoveFlags extends DrainFlags, ConfirmFlags, SignatureFlags, GuardFlags {
  readonly lost?: true;
  readonly keepKeys?: true;
  readonly wait: boolean;
}

interface PowerFlags extends DrainFlags, ConfirmFlags, GuardFlags {
  readonly drain: boolean;
  readonly wait: number;
}

const DEFAULT_POWER_MS = 15 * 60 * 1000;
const DEFAULT_DRAIN_MS = 10 * 60 * 1000;
const useCases = () => import('../../nodes/index.ts');

/** Adds the subcommands for members: labels, taints, scheduling, roles, disk keys and removal. */
export function registerNodeLifecycle(node: Command, action: ActionBinder): void {
  const verb: Verb = (name, description) =>
    node.command(name).description(description).argument('<node>', 'node name or ID');
  registerScheduling(verb, action);
  registerPower(verb('reboot', 'drain a node, restart its machine, and uncordon it'), action, 'runReboot');
  registerPower(verb('shutdown', 'drain a node and switch its machine off'), action, 'runShutdown');
  registerSetRole(verb('set-role', 'set the roles of a node'), action);
  registerReadmit(node, action);
  registerRemove(verb('remove', 'remove a node and verify that it lost access'), action);
  registerRotateDiskKeys(
    verb('rotate-disk-keys', 'give the encrypted state disk of a node new keys while it is mounted'),
    action,
  );
  registerReset(verb('reset', 'remove a node and reset its machine, which may then join again'), action);
}

type Verb = (name: string, description: string) => Command;

/** Help text of `--yes`: a drain without its flags deletes nothing for good. */
const DRAIN_PROMPT =
  'skip the confirmation prompt; required without a terminal if pods or data would be lost';

/** Help text of `--yes`: only a taint with the effect NoExecute evicts pods. */
const TAINT_PROMPT = 'skip the confirmation prompt; required without a terminal if pods would be evicted';

const REBOOT_PROMPT =
  'skip the confirmation prompt; required without a terminal if pods, data or the quorum would be lost';

function registerScheduling(verb: Verb, action: ActionBinder): void {
  verb('label', 'set or remove labels of a node')
    .argument('<change...>', 'KEY=VALUE sets a label, KEY- removes it')
    .action(
      action(async (context, _flags, name = '', ...changes) =>
        (await useCases()).runLabel(context, name, changes),
      ),
    );
  withConfirmFlags(verb('taint', 'set or remove taints of a node'), TAINT_PROMPT)
    .argument(
      '<change...>',
      'KEY=VALUE:EFFECT or KEY:EFFECT sets a taint; KEY:EFFECT-, or KEY- for every effect, removes it',
    )
    .addHelpText(
      'after',
      `
EFFECT is NoSchedule, PreferNoSchedule or NoExecute. The cluster keeps the
taints on record, and sets them before a node that joins runs any pod. Taints
that others set with kubectl stay.

NoExecute evicts the pods that do not tolerate the taint: the command names them
and asks.

Examples:
  cluster node taint w1 dedicated=gpu:NoSchedule
  cluster node taint w1 dedicated-`,
    )
    .action(
      action<ConfirmFlags>(async (context, flags, name = '', ...changes) =>
        (await useCases()).runTaint(context, name, changes, confirmFrom(flags)),
      ),
    );
  verb('cordon', 'mark a node as unschedulable').action(
    action(async (context, _flags, name = '') => (await useCases()).runCordon(context, name, false)),
  );
  verb('uncordon', 'mark a node as schedulable').action(
    action(async (context, _flags, name = '') => (await useCases()).runCordon(context, name, true)),
  );
  withDrainFlags(
    withConfirmFlags(
      verb('drain', 'evict all pods from a node, respecting disruption budgets'),
      DRAIN_PROMPT,
    ),
  ).action(
    action<DrainFlags & ConfirmFlags>(async (context, flags, name = '') =>
      (await useCases()).runDrain(context, name, { ...drainFrom(flags), ...confirmFrom(flags) }),
    ),
  );
}

function registerPower(command: Command, action: ActionBinder, use: 'runReboot' | 'runShutdown'): void {
  // A shutdown is part of the cure of a damaged member, so it is not refused.
  withDrainFlags(use === 'runReboot' ? withGuardFlags(command, REBOOT_PROMPT) : withConfirmFlags(command))
    .option('--no-drain', 'leave its pods on the node')
    .addOption(
      durationOption('--wait <duration>', 'time limit for the machine').default(DEFAULT_POWER_MS, '15m'),
    )
    .addHelpText(
      'after',
      `
If the remaining control planes would not be an etcd quorum, because one of them
does not respond, the command refuses. The command may be interrupted and
run again.`,
    )
    .action(
      action<PowerFlags>(async (context, flags, name = '') => {
        if (use === 'runReboot')
          await guard(context, flags, {
            ...{ doing: `restarting node ${name}`, action: 'member-restarts', node: name },
          });
        return (await useCases())[use](context, name, {
          ...confirmFrom(flags),
          drains: flags.drain,
          drain: drainFrom(flags),
          waitMs: flags.wait,
        });
      }),
    );
}

function registerSetRole(setRole: Command, action: ActionBinder): void {
  withSignatureFlags(
    withDrainFlags(
      withGuardFlags(
        setRole
          .option('--control-plane', 'run etcd, the API server and the curator')
          .option('--worker', 'run ordinary pods'),
      ),
    ),
  )
    .addHelpText(
      'after',
      `
The flags are the complete set of roles; a role that is not given is removed.
A node that loses the worker role is drained first. --dry-run shows the etcd
quorum before and after.

Examples:
  cluster node set-role n4 --control-plane --dry-run
  cluster node set-role n3 --worker`,
    )
    .action(
      action<RoleFlags>(async (context, flags, name = '') => {
        const staysControlPlane = flags.controlPlane === true;
        await guard(context, flags, {
          doing: `setting the roles of node ${name}`,
          action: staysControlPlane ? 'member-joins' : 'member-leaves',
          node: name,
        });
        return (await useCases()).runSetRole({ ...context, ...signatureFrom(flags) }, name, {
          roles: [
            ...(staysControlPlane ? (['control-plane'] as const) : []),
            ...(flags.worker === true ? (['worker'] as const) : []),
          ],
          ...confirmFrom(flags),
          drain: drainFrom(flags),
        });
      }),
    );
}

function registerReadmit(node: Command, action: ActionBinder): void {
  withSignatureFlags(
    node
      .command('readmit')
      .description('allow a removed machine to join again (needs an owner’s signature)')
      .argument('<machine>', 'former node name or ID, or machine identity'),
  )
    .addHelpText(
      'after',
      `
A removed machine is refused under every join policy, whatever key it uses.
Machines that were removed by \`cluster node reset\` need no readmission.

Examples:
  cluster node ls --removed
  cluster node readmit w2`,
    )
    .action(
      action<SignatureFlags>(async (context, flags, which = '') =>
        (await useCases()).runReadmit({ ...context, ...signatureFrom(flags) }, which),
      ),
    );
}

function registerRemove(remove: Command, action: ActionBinder): void {
  withSignatureFlags(
    withDrainFlags(
      withGuardFlags(
        remove
          .option('--lost', 'the machine will not return: do not wait for it; rotate shared keys')
          .option('--keep-keys', 'with --lost: do not rotate shared keys; its disk is unreadable')
          .option('--no-wait', 'do not wait for the key rotation to finish'),
      ),
    ),
  )
    .addHelpText(
      'after',
      `
From then on the machine is refused under every join policy until an owner
readmits it (\`cluster node readmit\`). Its entries in the join inventory are
deleted, which requires the signature of an owner over the configuration.`,
    )
    .action(
      action<RemoveFlags>(async (context, flags, name = '') => {
        await guard(context, flags, { doing: `removing node ${name}`, action: 'member-leaves', node: name });
        return (await useCases()).runRemove({ ...context, ...signatureFrom(flags) }, name, {
          ...confirmFrom(flags),
          isLost: flags.lost === true,
          drain: drainFrom(flags),
          keys: { keep: flags.keepKeys === true, wait: flags.wait },
        });
      }),
    );
}

function registerRotateDiskKeys(rotate: Command, action: ActionBinder): void {
  withConfirmFlags(rotate)
    .addHelpText(
      'after',
      `
The machine seals new shares to its TPM, which unseals the earlier ones no more,
and its owners get a new recovery key. A worker keeps the share that a signer
derives. Approvals of other software end (\`cluster attest approve\`). Requires
the key of an owner. The agent of the node starts again; pods stay.

An earlier copy of the disk still opens with an earlier recovery key, and the
key that encrypts the data stays: only a new disk has another one.

An interrupted rotation leaves a disk that opens. The agent completes it when it
starts, and the command may be run again.

Example:
  cluster node rotate-disk-keys n2 --dry-run`,
    )
    .action(
      action<ConfirmFlags>(async (context, flags, name = '') =>
        (await useCases()).runRotateDiskKeys(context, name, confirmFrom(flags)),
      ),
    );
}

function registerReset(reset: Command, action: ActionBinder): void {
  withDrainFlags(withGuardFlags(reset))
    .addHelpText(
      'after',
      `
If the agent does not run or the cluster no longer exists, reset the machine
as root on the machine itself. This deletes all cluster data on the machine:
  install -D /dev/null /var/lib/cluster/reset/order.json
  systemctl restart --no-block bootstrapper
If a cluster still lists the node: cluster node remove NODE --lost`,
    )
    .action(
      action<DrainFlags & ConfirmFlags & GuardFlags>(async (context, flags, name = '') => {
        await guard(context, flags, {
          doing: `resetting node ${name}`,
          action: 'member-leaves',
          node: name,
        });
        return (await useCases()).runReset(context, name, { ...confirmFrom(flags), drain: drainFrom(flags) });
      }),
    );
}

function withDrainFlags(command: Command): Command {
  return command
    .option('--force', 'evict pods not managed by a controller')
    .option('--delete-emptydir-data', 'evict pods that use emptyDir volumes; their data is lost')
    .addOption(timeoutOption('time limit for draining', DEFAULT_DRAIN_MS));
}

function drainFrom({ force = false, deleteEmptydirData = false, timeout }: DrainFlags) {
  return { force, deleteEmptyDirData: deleteEmptydirData, timeoutMs: timeout };
}
