import type { CommandContext } from '../app/command.ts';
import { printable } from '../../internal/printable/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { callCurator } from '../cluster/index.ts';

/**
 * Asks for confirmation before an operator is removed; with `--dry-run` shows the loss instead and resolves with true. The
 * cluster refuses an unknown name.
 */
export async function confirmOperatorRemoval(
  context: CommandContext,
  name: string,
  { dryRun, yes }: { readonly dryRun: boolean; readonly yes: boolean },
): Promise<boolean> {
  if (yes && !dryRun) return false;
  const { operators } = await callCurator(context, ({ operatorApi }) => operatorApi.listOperators({}));
  const known = operators.find((each) => each.name === name);
  const losses =
    known === undefined
      ? []
      : [
          `role ${printable(known.role)} of ${name}: every curator refuses the key ${printable(known.fingerprint)}`,
        ];
  if (!dryRun) {
    await confirmLoss(context, { doing: `removing operator ${name}`, losses, yes });
    return false;
  }
  context.host.result({ name, removed: false, dryRun, losses }, () =>
    known === undefined
      ? `operator ${JSON.stringify(name)} not found. Nothing would be changed.`
      : [`Operator ${name} would be removed. Nothing was changed. This deletes:`, renderLosses(losses)].join(
          '\n',
        ),
  );
  return true;
}
