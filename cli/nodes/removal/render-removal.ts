import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { formatTable } from '../../host/index.ts';
import { describeSharedKeys, type RemovalCheck, type SharedKey } from '../../keys/index.ts';
import { renderLosses } from '../../loss/index.ts';
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
      'This deletes:',
      renderLosses(losses),
    ].join('\n'),
  );
}

/** Lines with every check of a removal, and what remains of the shared keys that the node held. */
export function renderRemovalResult(
  proofs: readonly RemovalCheck[],
  sharedKeys: readonly SharedKey[],
  { isLost, outcome, held }: KeyReplacement & { readonly isLost: boolean },
): readonly string[] {
  return [
    formatTable(
      ['CHECK', 'RESULT'],
      proofs.map(({ what, actual }) => [what, actual]),
    ),
    ...describeSharedKeys(sharedKeys, { isLost, outcome, generation: held?.generation }),
  ];
}
