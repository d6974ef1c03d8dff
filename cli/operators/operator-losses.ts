import { printable } from '../../internal/printable/index.ts';
import { OPERATOR_ROLES } from '../../internal/role/index.ts';
import type { CommandContext } from '../app/command.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';

/** An operator: a record of the cluster, or what `cluster operator add` makes of it. */
interface OperatorFacts {
  readonly name: string;
  readonly role: string;
  readonly fingerprint: string;
}

/** Flags of a command that can take something away. */
interface Confirmation {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/**
 * What an operator loses who is added again: the key on record, or rights. Nothing, if key and role are the same or if only the
 * role is raised.
 * @param known operators on record, not verified
 */
export function lossesOfPut(known: readonly OperatorFacts[], put: OperatorFacts): readonly string[] {
  return known
    .filter(({ name }) => name === put.name)
    .flatMap(({ role, fingerprint }) => [
      ...(fingerprint === put.fingerprint
        ? []
        : [`key ${printable(fingerprint)} of ${put.name}: every curator refuses it`]),
      ...(isLowered(role, put.role) ? [`role ${printable(role)} of ${put.name}: now ${put.role}`] : []),
    ]);
}

/** A role that this program does not know may have any rights. */
function isLowered(before: string, after: string): boolean {
  const rankOf = (role: string): number => OPERATOR_ROLES.findIndex((each) => each === role);
  return rankOf(before) < 0 || rankOf(after) < rankOf(before);
}

/**
 * Asks before the operator loses a key or rights; with `--dry-run` shows the change instead and resolves with true.
 * @throws LossError
 */
export async function confirmPut(
  context: CommandContext,
  { known, put }: { readonly known: readonly OperatorFacts[]; readonly put: OperatorFacts },
  { dryRun = false, yes = false }: Confirmation,
): Promise<boolean> {
  const losses = lossesOfPut(known, put);
  const { name, role, fingerprint } = put;
  if (!dryRun) {
    await confirmLoss(context, { doing: `adding operator ${name} again`, losses, yes });
    return false;
  }
  context.host.result({ name, role, fingerprint, dryRun, losses }, () =>
    [
      `Operator ${name} would have role ${role} and key ${fingerprint}. Nothing was changed.`,
      ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
    ].join('\n'),
  );
  return true;
}
