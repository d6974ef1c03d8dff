import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import {
  JOINS_PREFIX,
  MIN_PREFIX,
  records,
  SLOT_PACE_KEY,
  SLOT_QUEUE_PREFIX,
  slotPositions,
  type JoinRecord,
  type SlotPosition,
} from '../../internal/records/index.ts';
import { OperatorApiError } from './errors.ts';
import { fingerprintOf } from './join-wire.ts';

/** A request with its etcd entry. */
interface Found {
  readonly entry: Entry;
  readonly record: JoinRecord;
}

/** All stored requests to join. */
export async function listJoins(etcd: KeySpace, signal: AbortSignal): Promise<readonly Found[]> {
  const { entries } = await etcd.list(JOINS_PREFIX, { signal });
  return entries.map((entry) => ({ entry, record: records.join.decode(entry.key, entry.value) }));
}

/**
 * The queue of control planes that wait for the slot in which they may change the members of etcd. Only one of them
 * may do so at a time. Returns the position by node ID.
 */
export async function readSlotQueue(
  etcd: KeySpace,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, SlotPosition>> {
  const [queue, pace] = await Promise.all([
    etcd.list(SLOT_QUEUE_PREFIX, { signal }),
    etcd.get(SLOT_PACE_KEY, { signal }),
  ]);
  return slotPositions(queue.entries, pace?.value);
}

/** Finds a request by join ID, fingerprint or identity, whole or a unique prefix. @throws OperatorApiError */
export async function findJoin(etcd: KeySpace, given: string, signal: AbortSignal): Promise<Found> {
  const all = await listJoins(etcd, signal);
  const names = ({ record }: Found): readonly string[] =>
    [record.nodeId, fingerprintOf(record), record.machine.identity].flatMap((name) => [
      name,
      name.replace(/^[a-z0-9-]+:|^node-/, ''),
    ]);
  const exact = all.filter((each) => names(each).includes(given));
  const isPrefix = given.length >= MIN_PREFIX;
  const found =
    exact.length > 0 || !isPrefix
      ? exact
      : all.filter((each) => names(each).some((name) => name.startsWith(given)));
  const [only, ...others] = found;
  const shown = JSON.stringify(given.slice(0, 80));
  if (only === undefined)
    throw new OperatorApiError(
      'operatorapi-join-unknown',
      `machine ${shown} not found${isPrefix ? '' : `; a prefix of an ID or fingerprint needs at least ${MIN_PREFIX} characters`}`,
    );
  if (others.length > 0) {
    const ids = found.map(({ record }) => record.nodeId).slice(0, 8);
    throw new OperatorApiError(
      'operatorapi-join-ambiguous',
      `${shown} matches several machines: ${ids.join(', ')}`,
    );
  }
  return only;
}
