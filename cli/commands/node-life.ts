import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { duration } from './numbers.ts';
import { YES } from './texts.ts';

interface DrainFlags {
  readonly force?: true;
  readonly deleteEmptydirData?: true;
  readonly timeout: number;
}

interface RoleFlags extends DrainFlags {
  readonly yes?: true;
  readonly controlPlane?: true;
  readonly worker?: true;
  readonly dryRun?: true;
}

interface ResetFlags extends DrainFlags {
  readonly yes?: true;
  readonly dryRun?: true;
}

interface RemoveFlags extends DrainFlags {
  readonly yes?: true;
  readonly dryRun?: true;
  readonly lost?: true;
  readonly keepKeys?: true;
  readonly wait: boolean;
}

const DEFAULT_DRAIN_MS = 10 * 60 * 1000;

/** Verbs about members: what they are, what they carry, and how they leave. */
export function registerNodeLife(node: Command, action: ActionBinder): void {
  const verb = (name: string, description: string): Command =>
    node.command(name).description(description).argument('<node>', 'name or id');
  verb('label', 'set and remove labels of a node')
    .argument('<change...>', 'KEY=VALUE sets, KEY- removes')
    .action(
      action<object>(async (context, _flags, name = '', ...changes) =>
        (await import('../nodes/index.ts')).runLabel(context, name, changes),
      ),
    );
  verb('cordon', 'let no new pods onto a node').action(
    action<object>(async (context, _flags, name = '') =>
      (await import('../nodes/index.ts')).runCordon(context, name, false),
    ),
  );
  verb('uncordon', 'let pods onto a node again').action(
    action<object>(async (context, _flags, name = '') =>
      (await import('../nodes/index.ts')).runCordon(context, name, true),
    ),
  );
  withDrainFlags(verb('drain', 'move all pods away from a node, as disruption budgets allow')).action(
    action<DrainFlags>(async (context, flags, name = '') =>
      (await import('../nodes/index.ts')).runDrain(context, name, drainFrom(flags)),
    ),
  );
  withDrainFlags(
    verb('set-role', 'change what a node is, in place: its whole set of roles from now on')
      .option('--control-plane', 'etcd member, API server and curator')
      .option('--worker', 'ordinary pods')
      .option('--dry-run', 'say what would happen, with the quorum before and after, and do nothing')
      .option('-y, --yes', YES),
  )
    .addHelpText(
      'after',
      '\nA node that gives up --worker is drained first, and takes ordinary pods again when it gets it back.' +
        '\n\nExamples:\n  cluster node set-role n4 --control-plane --dry-run\n  cluster node set-role n3 --worker',
    )
    .action(
      action<RoleFlags>(async (context, flags, name = '') =>
        (await import('../nodes/index.ts')).runSetRole(context, name, {
          roles: [
            ...(flags.controlPlane === true ? (['control-plane'] as const) : []),
            ...(flags.worker === true ? (['worker'] as const) : []),
          ],
          dryRun: flags.dryRun === true,
          yes: flags.yes === true,
          drain: drainFrom(flags),
        }),
      ),
    );
  registerReadmit(node, action);
  registerRemove(verb('remove', 'take a node out for good, and prove that it is gone'), action);
  registerReset(
    verb('reset', 'take a node out and make its machine a fresh one, which may join again'),
    action,
  );
}

function registerReadmit(node: Command, action: ActionBinder): void {
  node
    .command('readmit')
    .description('let a machine that was removed ask to join again; owners only, with their signature')
    .argument('<machine>', 'its name or id when it was a node, or its identity')
    .addHelpText(
      'after',
      '\nA machine that was removed is refused under every policy, with whatever key it asks. `cluster node reset` readmits by itself.' +
        '\n\nExamples:\n  cluster node ls --removed\n  cluster node readmit w2',
    )
    .action(
      action<object>(async (context, _flags, which = '') =>
        (await import('../nodes/index.ts')).runReadmit(context, which),
      ),
    );
}

function registerRemove(remove: Command, action: ActionBinder): void {
  withDrainFlags(
    remove
      .option('--dry-run', 'say what would happen and do nothing')
      .option('-y, --yes', YES)
      .option(
        '--lost',
        'the machine will not come back: do not wait for it, and have the keys replaced that it shared with control planes',
      )
      .option('--keep-keys', 'nobody can read its disk: leave those keys as they are')
      .option('--no-wait', 'do not follow how keys are replaced: the cluster does it by itself'),
  )
    .addHelpText(
      'after',
      '\nIts machine is refused from then on, under every policy and with every key, until an owner readmits it (`cluster node' +
        '\nreadmit`). Entries of the inventory that name it are taken out; that needs an owner, whose key signs the configuration.',
    )
    .action(
      action<RemoveFlags>(async (context, flags, name = '') =>
        (await import('../nodes/index.ts')).runRemove(context, name, {
          dryRun: flags.dryRun === true,
          yes: flags.yes === true,
          isLost: flags.lost === true,
          drain: drainFrom(flags),
          keys: { keep: flags.keepKeys === true, wait: flags.wait },
        }),
      ),
    );
}

function registerReset(reset: Command, action: ActionBinder): void {
  withDrainFlags(reset.option('--dry-run', 'say what would happen and do nothing').option('-y, --yes', YES))
    .addHelpText(
      'after',
      '\nA machine that can take no order, because its agent does not run or its cluster is gone, is made fresh as root on it:' +
        '\n  install -D /dev/null /var/lib/cluster/reset/order.json && systemctl restart bootstrapper' +
        '\nEverything of a cluster that it had is deleted. Where the cluster still lists it: cluster node remove NODE --lost',
    )
    .action(
      action<ResetFlags>(async (context, flags, name = '') =>
        (await import('../nodes/index.ts')).runReset(context, name, {
          dryRun: flags.dryRun === true,
          yes: flags.yes === true,
          drain: drainFrom(flags),
        }),
      ),
    );
}

function withDrainFlags(command: Command): Command {
  return command
    .option('--force', 'also pods that nobody makes anew elsewhere')
    .option('--delete-emptydir-data', 'also pods that keep data in an emptyDir, which is lost')
    .option('--timeout <time>', 'give up moving pods after this: 90s, 10m, 1h', duration, DEFAULT_DRAIN_MS);
}

function drainFrom({ force, deleteEmptydirData, timeout }: DrainFlags) {
  return {
    force: force === true,
    deleteEmptyDirData: deleteEmptydirData === true,
    timeoutMs: timeout,
  };
}
