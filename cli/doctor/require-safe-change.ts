import {
  DoctorError,
  gateOf,
  type ClusterFacts,
  type MembershipChange,
} from '../../internal/doctor/index.ts';
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
  const { code, cause, subject, figure } = problem;
  throw new DoctorError('doctor-change-unsafe', `${change.doing}: ${cause ?? `${subject}: ${figure}`}`, {
    fix: `${problem.fix} If this change is a part of that, add \`--skip-checks\`.`,
    details: { problem: code },
  });
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
