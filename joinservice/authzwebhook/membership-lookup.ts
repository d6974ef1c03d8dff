import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import type { NodeMembership } from './access-review.ts';

/** An answer may be this old: a kubelet asks several things at once, and each is a read of etcd otherwise. */
const FRESH_MS = 1_000;
const READ_MS = 2_000;
const MAX_KEPT = 10_000;
/** As nodes' ids are made; what is none is on no record. */
const NODE_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** Where a node stands; rejects when etcd cannot say. */
export type MembershipLookup = (nodeId: string, signal: AbortSignal) => Promise<NodeMembership | undefined>;

/** Linearizable reads, one at a time per node, each good for a second. */
export function createMembershipLookup(etcd: KeySpace, clock: Clock): MembershipLookup {
  const kept = new Map<string, { readonly readMs: number; readonly standing: Promise<Standing> }>();
  return async (nodeId, signal) => {
    if (!NODE_ID.test(nodeId)) return undefined;
    const nowMs = clock.monotonicMs();
    const found = kept.get(nodeId);
    if (found !== undefined && nowMs - found.readMs < FRESH_MS) return found.standing;
    if (kept.size >= MAX_KEPT) kept.clear();
    const standing = readStanding({ etcd, clock, signal }, nodeId);
    // Asked at this time, so an answer is never older than its age says.
    kept.set(nodeId, { readMs: nowMs, standing });
    // What failed is asked again by the next one; whoever waits for it learns why.
    standing.catch(() => kept.delete(nodeId));
    return standing;
  };
}

type Standing = NodeMembership | undefined;

async function readStanding(
  { etcd, clock, signal }: { readonly etcd: KeySpace; readonly clock: Clock; readonly signal: AbortSignal },
  nodeId: string,
): Promise<Standing> {
  const key = records.node.key(nodeId);
  const entry = await withTimeout({ what: `reading ${key}`, ms: READ_MS, clock, signal }, (child) =>
    etcd.get(key, { signal: child }),
  );
  if (entry === undefined) return undefined;
  const { name, state } = records.node.decode(key, entry.value);
  return { name, isMember: isMemberState(state) };
}
