import {
  backupDrawbackOf,
  backupGateOf,
  DoctorError,
  gateOf,
  recoveryGateOf,
  type ClusterFacts,
  type Finding,
  type GatedChange,
} from '../../internal/doctor/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { collectGateFacts } from './collect-gate-facts.ts';

/** A change of a node that an operator has ordered. */
export interface GuardedChange extends GatedChange {
  /** "removing node n2" */
  readonly doing: string;
  /** The operator has decided to make the change all the same. */
  readonly skipChecks: boolean;
}

/**
 * Refuses a change of the members of etcd while the doctor finds a problem that the change would make worse: the checks of
 * `cluster doctor` that are gates of this change (`GATE_RULES`).
 * @throws DoctorError `doctor-change-unsafe`
 */
export async function requireSafeChange(context: CommandContext, change: GuardedChange): Promise<void> {
  if (change.skipChecks) return;
  refuseFor(gateOf(await collectGateFacts(context), change), change.doing);
}

/**
 * Refuses to make the data of this machine that of the cluster while the machine could not keep it: its disk is full or
 * read-only, or its clock is wrong.
 * @param facts collected on the machine
 * @throws DoctorError `doctor-change-unsafe`
 */
export function requireSoundMachine(facts: ClusterFacts, doing: string): void {
  refuseFor(recoveryGateOf(facts), doing);
}

function refuseFor(problem: Finding | undefined, doing: string): void {
  if (problem === undefined) return;
  throw new DoctorError('doctor-change-unsafe', `${doing}: ${textOf(problem)}`, {
    fix: `${problem.fix} If this change is a part of that, add \`--skip-checks\`.`,
    details: { problem: problem.code },
  });
}

/**
 * Chooses the control plane that takes a backup: one whose etcd members have the right content, and if there is any, one that responds and
 * whose members and disks have no problem.
 * An owner can name a control plane whose data nobody can judge, but a damaged one only with `skipChecks`.
 * @returns the ID of the node, or `wanted`; undefined if the records cannot be read or list no control plane
 * @throws DoctorError `doctor-backup-damaged`
 */
export async function chooseBackupNode(
  context: CommandContext,
  wanted: string | undefined,
  skipChecks: boolean,
): Promise<string | undefined> {
  const facts = await collectGateFacts(context);
  if (!facts.records.ok) return wanted; // the backup fails for the same reason
  const planes = facts.records.value.nodes
    .filter(({ isControlPlane, state }) => isControlPlane && state === 'up')
    .map(({ id, name, health }) => {
      const isSound = backupDrawbackOf(facts, name) === undefined;
      const rank = Number(health === 'healthy') * 2 + Number(isSound);
      return { id, name, rank, problem: skipChecks ? undefined : backupGateOf(facts, name) };
    })
    .toSorted((a, b) => b.rank - a.rank);
  if (wanted === undefined) {
    const good = planes.find(({ problem }) => problem === undefined);
    const [first] = planes;
    if (good !== undefined || first?.problem === undefined) return good?.id;
    const { fix } = first.problem;
    throw new DoctorError('doctor-backup-damaged', `taking a backup: ${textOf(first.problem)}`, { fix });
  }
  const problem = planes.find(({ id, name }) => id === wanted || name === wanted)?.problem;
  if (problem?.node === undefined) return wanted;
  throw new DoctorError(
    'doctor-backup-damaged',
    `taking a backup on ${printable(wanted)}: ${textOf(problem)}`,
  );
}

function textOf({ cause, subject, figure }: Finding): string {
  return cause ?? `${subject}: ${figure}`;
}
