import type { Command } from 'commander';
import type { ActionBinder } from '../app/command.ts';
import { confirmFrom, wholeNumber, type ConfirmFlags } from './flags.ts';
import { guard, withGuardFlags, type GuardFlags } from './guard.ts';

interface RotateFlags extends ConfirmFlags, GuardFlags {
  readonly reason?: string;
  readonly wait: boolean;
  readonly replace?: number;
}

const useCases = () => import('../keys/index.ts');

/** `cluster keys …`. */
export function register(keys: Command, action: ActionBinder): void {
  keys
    .command('show')
    .description('show the current key generation and the progress of a rotation')
    .action(action(async (context) => (await useCases()).runKeysShow(context)));
  withGuardFlags(
    keys
      .command('rotate')
      .description('replace the shared keys of the control planes while the cluster runs')
      .option('--reason <text>', 'reason for the audit log')
      .option(
        '--replace <generation>',
        'generation to replace; required after the first rotation (`keys show`)',
        wholeNumber(1, 1_000_000),
      )
      .option('--no-wait', 'return when the new keys are signed, before the rotation is finished'),
  )
    .addHelpText(
      'after',
      `
Each control plane in turn restarts etcd and its API server; pods keep
running. With one or two control planes etcd loses its quorum for a few
seconds each time. The rotation waits for control planes that are down.

An owner must sign the new keys: nodes install only signed keys. This command
signs them when a control plane has created them. After that the rotation
continues without the command.

Running the command again does not start a second rotation: the command follows
the current rotation. To replace keys that were rotated before, name their
generation with --replace.

Example:
  cluster keys rotate --reason "backup of n1 was exposed"`,
    )
    .action(
      action<RotateFlags>(async (context, { reason = '', wait, replace, ...flags }) => {
        // The rotation restarts the member of every control plane.
        await guard(context, flags, {
          doing: 'replacing the shared keys',
          action: 'all-members-restart',
          node: '',
        });
        return (await useCases()).runKeysRotate(context, { reason, wait, replace, ...confirmFrom(flags) });
      }),
    );
}
