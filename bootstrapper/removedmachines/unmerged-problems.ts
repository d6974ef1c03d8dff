import type { KnownMachine } from '../../internal/records/index.ts';
import type { MachineProblem } from '../hosthealth/index.ts';

/** More members are not named in the status of a node, which has a limited size. */
const MAX_NAMED = 16;

/** The problems that this node reports about members which it knows as removed: one for each member. */
export function unmergedProblems(
  unmerged: readonly KnownMachine[],
  nodeName: string,
): readonly MachineProblem[] {
  const names = [...new Set(unmerged.map(({ name }) => name))].slice(0, MAX_NAMED);
  return names.map((name) => ({
    code: 'doctor-removal-unmerged',
    subject: name,
    cause: `${nodeName} knows that ${name} was removed before the restore`,
    isWarning: true,
  }));
}
