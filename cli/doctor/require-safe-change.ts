import {
  backupGateOf,
  DoctorError,
  gateOf,
  type ClusterFacts,
  type Finding,
  type MembershipChange,
} from '../../internal/doctor/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import { callCurator, readPart } from '../cluster/index.ts';
import { plain, readNodeRecords } from './read-records.ts';

/** A change of a node that an operator has ordered. */
export interface GuardedChange extends MembershipChange {
  /** "removing node n2" */
  readonly doing: string;
  /** The operator has decided to make the change all the same. */
  readonly skipChecks: boolean;
}

/**
 * Refuses a change of the members of etcd while the doctor finds an error that the change would make worse. The same checks as
 * those of `cluster doctor`, on the records alone: no node is asked.
 * @throws DoctorError `doctor-change-unsafe`
 */
export async function requireSafeChange(context: CommandContext, change: GuardedChange): Promise<void> {
  if (change.skipChecks) return;
  const problem = gateOf(await recordFacts(context), change);
  if (problem === undefined) return;
  throw new DoctorError('doctor-change-unsafe', `${change.doing}: ${textOf(problem)}`, {
    fix: `${problem.fix} If this change is a part of that, add \`--skip-checks\`.`,
    details: { problem: problem.code },
  });
}

/**
 * Chooses the control plane that takes a backup: one whose etcd members have the right content, and one that responds if there is any.
 * An owner can name a control plane whose data nobody can judge, but a damaged one only with `skipChecks`.
 * @returns the ID of the node, or `wanted`; undefined if the records cannot be read or list no control plane
 * @throws DoctorError `doctor-backup-damaged`
 */
export async function chooseBackupNode(
  context: CommandContext,
  wanted: string | undefined,
  skipChecks: boolean,
): Promise<string | undefined> {
  const facts = await recordFacts(context);
  if (!facts.records.ok) return wanted; // the backup fails for the same reason
  const planes = facts.records.value.nodes
    .filter(({ isControlPlane, state }) => isControlPlane && state === 'up')
    .toSorted((a, b) => Number(b.health === 'healthy') - Number(a.health === 'healthy'))
    .map(({ id, name }) => ({ id, name, problem: skipChecks ? undefined : backupGateOf(facts, name) }));
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

/** The facts that the curators have on record. Everything else counts as not measured. */
async function recordFacts(context: CommandContext): Promise<ClusterFacts> {
  const answer = plain(await readPart(context, () => callCurator(context, readNodeRecords)));
  const none = { ok: false as const, error: 'not asked', codes: [] };
  return {
    ...{ version: 1, takenMs: context.ports.clock.nowMs(), cliVersion: VERSION },
    ...{ clusterId: '', clusterName: '' },
    records: answer.ok ? { ok: true, value: answer.value.records } : answer,
    ...{ keys: none, joins: none, documents: none, collateral: none, kubernetes: none },
    ...{ curators: [], clocks: [], apiServers: [], kubelets: [], metrics: [], evidence: [] },
  };
}
