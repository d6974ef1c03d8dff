import type { Clock } from '../../../internal/clock/index.ts';
import {
  remove,
  unchanged,
  type Condition,
  type KeySpace,
  type Write,
} from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { records, type JoinRecord } from '../../../internal/records/index.ts';
import { JoinError } from '../errors.ts';
import type { JoinEntry, JoinFeed } from './join-feed.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Requests that are not members. Beyond that, one whose machine has gone makes room for the next. */
export const MAX_OPEN_REQUESTS = 1024;
/** A machine that still asks is seen every ten minutes. */
const GONE_MS = 30 * MINUTE_MS;
/** How long a request is kept whose machine does not ask any more; what an operator refused is remembered longer. */
const KEPT_MS = { stranger: DAY_MS, approved: DAY_MS, refusedByOperator: 30 * DAY_MS };
const SWEEP_MS = 10 * MINUTE_MS;
const SWEPT_AT_ONCE = 32;

/** What is taken out, and what must still be so. */
export interface RequestRemoval {
  readonly when: readonly Condition[];
  readonly then: readonly Write[];
}

/** What has to go, so that a request that is not on record yet may be; throws `join-busy` when nothing can. */
export function requestsToEvict(feed: JoinFeed, nodeId: string, nowMs: number): readonly JoinEntry[] {
  const { open } = feed;
  if (open.length < MAX_OPEN_REQUESTS) return [];
  const gone = open
    .filter(({ record }) => isStrangers(record) && nowMs - record.lastSeenMs > GONE_MS)
    .reduce<JoinEntry | undefined>(
      (a, b) => (a === undefined || b.record.lastSeenMs < a.record.lastSeenMs ? b : a),
      undefined,
    );
  if (gone === undefined)
    throw new JoinError('join-busy', `admitting ${nodeId}: ${open.length} machines ask already`);
  return [gone];
}

/** Requests and what is known of their way, as they were seen: an operator may have decided about one since. */
export function planRequestRemoval(entries: readonly JoinEntry[]): RequestRemoval {
  const each = [...new Map(entries.map((entry) => [entry.record.nodeId, entry])).values()];
  return {
    when: each.map(({ record, modRevision }) =>
      unchanged({ key: records.join.key(record.nodeId), modRevision }),
    ),
    then: each.flatMap(({ record: { nodeId } }) => [
      remove(records.join.key(nodeId)),
      remove(records.trace.key(nodeId)),
    ]),
  };
}

/** Whether nobody needs the request any more: its machine stays away, or its admission ran out long ago. */
export function isExpired(record: JoinRecord, nowMs: number): boolean {
  const { state, decision, lastSeenMs } = record;
  if (state === 'joined') return false;
  if (isStrangers(record)) return nowMs - lastSeenMs > KEPT_MS.stranger;
  if (state === 'refused') return nowMs - lastSeenMs > KEPT_MS.refusedByOperator;
  return nowMs - Math.max(lastSeenMs, decision?.expiresMs ?? 0) > KEPT_MS.approved;
}

/** Removes requests that are over, until the signal fires. Any number of nodes may do so at the same time. */
export async function runSweep(
  ports: {
    readonly etcd: KeySpace;
    readonly feed: JoinFeed;
    readonly clock: Clock;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<never> {
  const { etcd, feed, clock, log } = ports;
  for (;;) {
    await clock.sleep(SWEEP_MS, signal);
    try {
      const count = await sweep(etcd, feed, clock.nowMs(), signal);
      if (count > 0) log.info('requests to join that are over were removed', { count });
    } catch (error) {
      signal.throwIfAborted();
      log.warn('requests to join could not be removed; once more later', { error });
    }
  }
}

async function sweep(etcd: KeySpace, feed: JoinFeed, nowMs: number, signal: AbortSignal): Promise<number> {
  const over = feed.all.filter(({ record }) => isExpired(record, nowMs));
  for (let at = 0; at < over.length; at += SWEPT_AT_ONCE)
    await Promise.all(
      over.slice(at, at + SWEPT_AT_ONCE).map((entry) => etcd.commit(planRequestRemoval([entry]), { signal })),
    );
  return over.length;
}

/** No operator has decided about it, and no policy has admitted it. */
function isStrangers({ state, decision }: JoinRecord): boolean {
  return state !== 'joined' && state !== 'approved' && decision?.by.startsWith('operator:') !== true;
}
