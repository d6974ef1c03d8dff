import { Backoff, type Clock } from '../../internal/clock/index.ts';
import { findCoded, isAbort } from '../../internal/errors/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { RepeatedProblem, type Logger } from '../../internal/logging/index.ts';
import { knownMachineShape, MAX_KNOWN_MACHINES, type KnownMachine } from '../../internal/records/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import {
  Distribution,
  type FetchRemovalsResponse,
} from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import type { ChecksummedFile, Membership } from '../membership/index.ts';
import { memberWorker, nextWithin, type RoleValues, type RoleValueWriters } from '../roleserve/index.ts';
import { NodeRemovedMachinesError } from './errors.ts';
import { loadRemovals, MAX_UNMERGED, type SavedRemovals } from './saved-removals.ts';

/** All nodes are told about a removal at the same time. They fetch the list within this time. */
const SPREAD_MS = 10_000;
const MAX_PAUSE_MS = 600_000;
const RETRY_PAUSES = { firstMs: 5_000, factor: 2, longestMs: MAX_PAUSE_MS };

/** Inputs and ports (injected dependencies) of the worker. */
export interface RemovedMachinesOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterRemovals'>;
  readonly writes: Pick<RoleValueWriters, 'unmergedRemovals'>;
  readonly curators: Curators;
  readonly clock: Clock;
  readonly saved: Pick<ChecksummedFile<SavedRemovals>, 'load' | 'save'>;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
}

interface FetchedList {
  readonly epoch: number;
  readonly sha256: string;
  readonly machines: readonly KnownMachine[];
}

/**
 * Keeps the list of machines that the cluster refuses. If the cluster has a newer epoch than the list on disk, it was restored, perhaps from a
 * backup that is older than a removal: the worker reports what the new list lacks before it replaces the old one.
 */
export function removedMachinesWorker(options: RemovedMachinesOptions): Runnable {
  return memberWorker(options, (scope, membership) => {
    scope.run('follow', (child) => follow(options, membership, child));
  });
}

async function follow(
  options: RemovedMachinesOptions,
  { clusterId }: Membership,
  scope: Scope,
): Promise<void> {
  const { reads, writes, saved, clock, random } = options;
  const { signal, log } = scope;
  using changes = reads.clusterRemovals.watch();
  scope.healthy();
  const first = await loadRemovals(saved, clusterId, log);
  writes.unmergedRemovals.set(first?.unmerged);
  let known = first?.sha256;
  const problem = new RepeatedProblem();
  const backoff = new Backoff(RETRY_PAUSES);
  for (;;) {
    let pauseMs = MAX_PAUSE_MS;
    try {
      const sha256 = currentValue(reads.clusterRemovals) ?? '';
      if (sha256 !== '' && sha256 !== known) {
        await clock.sleep(random() * SPREAD_MS, signal);
        const list = await update(options, clusterId, { log, signal });
        writes.unmergedRemovals.set(list.unmerged);
        known = list.sha256;
      }
      problem.end();
      backoff.reset();
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      if (problem.isNew(error))
        log.warn('list of removed machines not updated, keeping the current one', { error });
      pauseMs = backoff.nextMs();
    }
    await nextWithin(changes, pauseMs * (0.75 + random() / 2), clock, signal);
  }
}

/** May be interrupted at any time: the file changes last, and a curator takes the same report again. */
async function update(
  { curators, saved }: RemovedMachinesOptions,
  clusterId: string,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<SavedRemovals> {
  const before = await loadRemovals(saved, clusterId, log);
  const answer = await curators.use(
    (curator, work) => curator.of(Distribution).fetchRemovals({}, { signal: work }),
    { signal },
  );
  const fetched = listFrom(answer, before?.epoch ?? 1);
  const reported = before === undefined ? [] : reportOf(before, fetched);
  const unmerged = reported.length === 0 ? [] : await report(curators, reported, { log, signal });
  const list = { clusterId, ...fetched, unmerged };
  await saved.save(list);
  return list;
}

/** Everything in it comes from a curator. @throws NodeRemovedMachinesError `noderemovedmachines-list-invalid` */
function listFrom({ epoch, sha256, machines }: FetchRemovalsResponse, lowestEpoch: number): FetchedList {
  const refused = (why: string): NodeRemovedMachinesError =>
    new NodeRemovedMachinesError(
      'noderemovedmachines-list-invalid',
      `reading the list of removed machines: ${why}`,
    );
  if (epoch < BigInt(lowestEpoch) || epoch > BigInt(Number.MAX_SAFE_INTEGER))
    throw refused(`epoch ${epoch}, expected ${lowestEpoch} or a newer one`);
  if (machines.length > MAX_KNOWN_MACHINES) throw refused(`${machines.length} machines`);
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw refused('no hash');
  const parsed = machines.map((machine) => {
    const { data } = knownMachineShape.safeParse(machine);
    if (data === undefined) throw refused('a machine has another shape');
    return data;
  });
  return { epoch: Number(epoch), sha256, machines: parsed };
}

/** What this node knows and the list lacks: after a restore all of it, and later the members that it could not merge. */
function reportOf(before: SavedRemovals, { epoch, machines }: FetchedList): readonly KnownMachine[] {
  const listed = new Set(machines.map(({ identity }) => identity));
  const known = epoch > before.epoch ? [...before.unmerged, ...before.machines] : before.unmerged;
  return known.filter(({ identity }) => !listed.has(identity)).slice(0, MAX_KNOWN_MACHINES);
}

/** The reported machines that are members nevertheless. */
async function report(
  curators: Curators,
  machines: readonly KnownMachine[],
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<readonly KnownMachine[]> {
  const wire = machines.map((each) => ({ ...each }));
  try {
    const { unmerged } = await curators.use(
      (curator, work) => curator.of(Distribution).reportRemovals({ machines: wire }, { signal: work }),
      { signal },
    );
    const members = unmerged
      .flatMap((each) => knownMachineShape.safeParse(each).data ?? [])
      .slice(0, MAX_UNMERGED);
    log.info('reported removals of machines', { machines: wire.length, members });
    return members;
  } catch (error) {
    // After the recovery of a quorum, and on a node that no restore has kept.
    if (findCoded(error)?.code !== 'removedmachines-not-kept') throw error;
    log.info('the cluster takes no report of removals from this node', { machines: wire.length });
    return [];
  }
}
