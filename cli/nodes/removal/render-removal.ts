import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { printable } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { formatTable } from '../../host/index.ts';
import { describeSharedKeys, type RemovalCheck, type SharedKey } from '../../keys/index.ts';
import { renderLosses } from '../../loss/index.ts';
import { taintText, taintViews } from '../node-taint.ts';
import { describeQuorum, type RolePlan } from '../roles/role-plan.ts';
import type { KeyReplacement } from './replace-keys.ts';

/** What would be done to the node: "removed" or "reset". */
export interface RemovalPreview {
  /** "removed" or "reset". */
  readonly done: string;
  readonly notes?: readonly string[];
  readonly steps: readonly string[];
  readonly losses: readonly string[];
  /** Undefined if an earlier, interrupted run has already taken the roles. */
  readonly plan: RolePlan | undefined;
}

/** Prints what a command would do to a node. */
export function showRemovalPreview(
  { host }: CommandContext,
  { name }: Node,
  { done, notes = [], steps, losses, plan }: RemovalPreview,
): void {
  host.result({ node: name, dryRun: true, steps, losses, plan }, () =>
    [
      `Node ${name} would be ${done}. Nothing was changed.`,
      ...notes,
      ...steps.map((step, index) => `  ${index + 1}. ${step}`),
      ...(plan === undefined ? [] : [`  quorum  ${describeQuorum(plan)}`]),
      'Consequences:',
      renderLosses(losses),
    ].join('\n'),
  );
}

/** What to do with a machine after it was removed or reset. */
export function nextForMachine(
  { name, labels, taints }: Pick<Node, 'name' | 'labels' | 'taints'>,
  { isReset, isLost }: { readonly isReset: boolean; readonly isLost: boolean },
): readonly string[] {
  const flags = [
    ...Object.entries(labels).map(([key, value]) => `--label ${printable(key)}=${printable(value)}`),
    ...taintViews(taints).map((taint) => `--taint ${taintText(taint)}`),
  ];
  if (isReset)
    return [
      'Its machine deletes all data of the cluster and reboots. Then it may ask to join again as a new node.',
      ...(flags.length === 0
        ? []
        : [`The node had labels or taints. To give them again, approve it with \`${flags.join(' ')}\`.`]),
      'To uninstall the agent, run `apt-get purge cluster-agent` on the machine after that.',
    ];
  return [
    isLost
      ? 'If its machine comes back, it stops everything that it ran for the cluster and says that it was removed.'
      : 'Its machine stops everything that it ran for the cluster, and says so on its console and in `systemctl status bootstrapper`.',
    'Its disk is not erased: images, logs and the data of its pods are still on it. To use the machine again, reset it there as root (see `cluster node reset --help`); otherwise erase the disk.',
    `To let it join this cluster again afterwards: \`cluster node readmit ${name}\`.`,
  ];
}

/** What `renderRemovalResult` shows of a removal. */
export interface RemovalResult {
  readonly proofs: readonly RemovalCheck[];
  readonly sharedKeys: readonly SharedKey[];
  readonly keys: KeyReplacement;
}

/**
 * Lines with the checks of a removal, and what remains of the shared keys that the node held. Checks that have passed are
 * listed with `-o wide` only: there is one for each credential at each endpoint of each node.
 */
export function renderRemovalResult(
  { host }: CommandContext,
  { proofs, sharedKeys, keys: { outcome, onDisk, held } }: RemovalResult,
): readonly string[] {
  const listed = host.isWide ? proofs : proofs.filter(({ ok, isTested }) => !ok || isTested === false);
  const passed = proofs.length - listed.length;
  return [
    ...(passed === 0
      ? []
      : [
          `${passed} of ${proofs.length} checks passed: records, endpoints and credentials (-o wide lists them).`,
        ]),
    ...(listed.length === 0
      ? []
      : [
          formatTable(
            ['CHECK', 'RESULT'],
            listed.map(({ what, actual }) => [what, actual]),
          ),
        ]),
    ...describeSharedKeys(sharedKeys, { onDisk, outcome, generation: held?.generation }),
  ];
}
