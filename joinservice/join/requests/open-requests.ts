import { mapConcurrently } from '../../../internal/cleanup/index.ts';
import { type Clock, DAY_MS, MINUTE_MS } from '../../../internal/clock/index.ts';
import {
  remove,
  unchanged,
  type Condition,
  type KeySpace,
  type Write,
} from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { records, type JoinRecord } from '../../../internal/records/index.ts';
import { isOperatorDecision } from '../admission/applicant.ts';
import { JoinError } from '../errors.ts';
import type { JoinEntry, JoinFeed } from './join-feed.ts';

/**
 * The maximum number of requests of non-members. Above it, a new request evicts the request of an inactive
 * machine.
 */
export const MAX_OPEN_REQUESTS = 1024;
/**
 * A machine that did not call for this long is inactive. The request of an active machine is written every
 * ten minutes.
 */
const INACTIVE_MS = 30 * MINUTE_MS;
/** How long requests of machines that stopped calling are kept; refusals of operators are kept longer. */
const KEPT_MS = { undecided: DAY_MS, approved: DAY_MS, refusedByOperator: 30 * DAY_MS };
const SWEEP_MS = 10 * MINUTE_MS;
const SWEPT_AT_ONCE = 32;

/** The conditions and writes of one etcd transaction that removes requests. */
export interface RequestRemoval {
  readonly when: readonly Condition[];
  readonly then: readonly Write[];
}

/** Requests to evict before a new one is stored; usually none. @throws JoinError `join-busy` if none can be evicted */
export function requestsToEvict(feed: JoinFeed, nodeId: string, nowMs: number): readonly JoinEntry[] {
  const { open } = feed;
  if (open.length < MAX_OPEN_REQUESTS) return [];
  const oldest = open
    .filter(({ record }) => isUndecided(record) && nowMs - record.lastSeenMs > INACTIVE_MS)
    .reduce<JoinEntry | undefined>(
      (a, b) => (a === undefined || b.record.lastSeenMs < a.record.lastSeenMs ? b : a),
      undefined,
    );
  if (oldest === undefined)
    throw new JoinError('join-busy', `admitting ${nodeId}: ${open.length} requests are open`);
  return [oldest];
}

/**
 * Plans a transaction that removes requests with their traces. The transaction fails if one of the requests was
 * changed since it was read.
 */
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

/** Whether a request can be removed: its machine stopped calling, or its admission expired long ago. */
export function isExpired(record: JoinRecord, nowMs: number): boolean {
  const { state, decision, lastSeenMs } = record;
  if (state === 'joined') return false;
  if (isUndecided(record)) return nowMs - lastSeenMs > KEPT_MS.undecided;
  if (state === 'refused') return nowMs - lastSeenMs > KEPT_MS.refusedByOperator;
  return nowMs - Math.max(lastSeenMs, decision?.expiresMs ?? 0) > KEPT_MS.approved;
}

/** Removes expired requests until the signal fires. Several control planes may do so at the same time. */
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
      if (count > 0) log.info('expired join requests removed', { count });
    } catch (error) {
      signal.throwIfAborted();
      log.warn('removing expired join requests failed, retrying', { error });
    }
  }
}

async function sweep(etcd: KeySpace, feed: JoinFeed, nowMs: number, signal: AbortSignal): Promise<number> {
  const expired = feed.all.filter(({ record }) => isExpired(record, nowMs));
  await mapConcurrently(expired, SWEPT_AT_ONCE, (entry) =>
    etcd.commit(planRequestRemoval([entry]), { signal }),
  );
  return expired.length;
}

/** Whether neither an operator nor a policy has decided about the request. */
function isUndecided({ state, decision }: JoinRecord): boolean {
  return state !== 'joined' && state !== 'approved' && !isOperatorDecision(decision);
}
