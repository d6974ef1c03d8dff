import type { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import {
  knownMachineShape,
  MAX_KNOWN_MACHINES,
  planRemoval,
  type KnownMachine,
} from '../../internal/records/index.ts';
import { nameOfCaller, refuseField, type Caller } from '../curator/index.ts';
import type { ReportRemovalsRequest } from '../curatorproto/gen/distribution_pb.js';
import { RemovedMachinesError } from './errors.ts';
import { readProgress } from './report-progress.ts';
import { noRemovalYet, notMember, sortMachines } from './sort-machines.ts';

/** Each machine needs four conditions, and etcd accepts 128 operations in a transaction. */
const MACHINES_AT_ONCE = 24;
const TRIES = 16;

/** Dependencies of the reports. */
interface ReportParts {
  readonly etcd: KeySpace;
  readonly audit: Pick<AuditLog, 'commit'>;
  readonly clock: Pick<Clock, 'nowMs'>;
}

/** The node that reports. */
interface Reporter {
  readonly peer: Caller;
  readonly signal: AbortSignal;
}

/**
 * Records the machines that a kept worker knows as removed and the restored cluster does not: they are refused until an owner
 * readmits them. The word of a node does not remove a member. Only the first report of a kept worker adds removals, and it may be repeated after an
 * interruption.
 * @returns the reported machines that are members nevertheless
 * @throws RemovedMachinesError `removedmachines-not-kept`, `removedmachines-busy`; CuratorError `curator-request-invalid`
 */
export async function takeReport(
  parts: ReportParts,
  request: ReportRemovalsRequest,
  call: Reporter,
): Promise<readonly KnownMachine[]> {
  const machines = machinesOf(request);
  for (let tries = 0; tries < TRIES; tries++) {
    const unmerged = await merge(parts, machines, call);
    if (unmerged !== undefined) return unmerged;
  }
  throw new RemovedMachinesError(
    'removedmachines-busy',
    `recording removals that ${nameOfCaller(call.peer)} reports: the records were changed ${TRIES} times meanwhile`,
  );
}

/** The reported machines, each identity once. A node sends what it has checked itself, so that another shape is refused as a whole. */
function machinesOf({ machines }: ReportRemovalsRequest): readonly KnownMachine[] {
  if (machines.length > MAX_KNOWN_MACHINES)
    refuseField('machines', `${machines.length} machines, at most ${MAX_KNOWN_MACHINES}`);
  const parsed = machines.map((each) => {
    const { data } = knownMachineShape.safeParse(each);
    return data ?? refuseField('machines', 'expected an identity, a node ID and a name');
  });
  return [...new Map(parsed.map((machine) => [machine.identity, machine])).values()];
}

/** Returns undefined if another writer was faster: everything has to be read again. */
async function merge(
  parts: ReportParts,
  machines: readonly KnownMachine[],
  { peer, signal }: Reporter,
): Promise<readonly KnownMachine[] | undefined> {
  const { etcd, audit, clock } = parts;
  const progress = await readProgress(etcd, peer, signal);
  const unmerged: KnownMachine[] = [];
  const groups = groupsOf(machines);
  for (const [at, group] of groups.entries()) {
    const seen = await sortMachines(etcd, group, signal);
    unmerged.push(...seen.members);
    const isDone = at === groups.length - 1;
    const open = seen.open.slice(0, progress.room);
    if (progress.isDone || (open.length === 0 && !isDone)) continue;
    const nowMs = clock.nowMs();
    const removedBy = `kept-worker:${peer.name}`;
    const removals = open.map((machine) =>
      planRemoval([noRemovalYet(machine)], machine, { nowMs, removedBy }),
    );
    const counted = progress.plan(open.length, isDone);
    const left = seen.open.length - open.length;
    const detail = { name: peer.name, removed: open.length, members: seen.members.length, left, isDone };
    const result = await audit.commit(
      {
        when: [...counted.when, ...open.flatMap(notMember), ...removals.flatMap(({ when }) => when)],
        then: [...counted.then, ...removals.flatMap(({ then }) => then)],
        facts: {
          ...{ timeMs: nowMs, caller: nameOfCaller(peer), method: 'ReportRemovals', subject: 'removals' },
          detail,
        },
      },
      signal,
    );
    if (result.kind === 'overtaken') return undefined;
    progress.advance(open.length, result.revision);
  }
  return unmerged;
}

/** At least one group: also an empty report ends with an audit entry. */
function groupsOf(machines: readonly KnownMachine[]): readonly (readonly KnownMachine[])[] {
  const count = Math.max(1, Math.ceil(machines.length / MACHINES_AT_ONCE));
  return Array.from({ length: count }, (_, at) =>
    machines.slice(at * MACHINES_AT_ONCE, (at + 1) * MACHINES_AT_ONCE),
  );
}
