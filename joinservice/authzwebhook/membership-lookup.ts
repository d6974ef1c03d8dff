import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import type { NodeMembership } from './access-review.ts';

/** How long a result is reused: a kubelet sends several requests at once, and each would be a read of etcd. */
const MAX_AGE_MS = 1_000;
const READ_MS = 2_000;
const MAX_CACHED = 10_000;
/** The pattern of node IDs; no record has an ID of another form. */
const NODE_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** Looks up a node; resolves with undefined if it has no record, rejects while etcd is unavailable. */
export type MembershipLookup = (nodeId: string, signal: AbortSignal) => Promise<NodeMembership | undefined>;

/** A lookup with linearizable reads, one at a time for each node, each reused for a second. */
export function createMembershipLookup(etcd: KeySpace, clock: Clock): MembershipLookup {
  const cached = new Map<string, { readonly readMs: number; readonly node: Promise<Lookup> }>();
  return async (nodeId, signal) => {
    if (!NODE_ID.test(nodeId)) return undefined;
    const nowMs = clock.monotonicMs();
    const found = cached.get(nodeId);
    if (found !== undefined && nowMs - found.readMs < MAX_AGE_MS) return found.node;
    if (cached.size >= MAX_CACHED) cached.clear();
    const node = readMembership({ etcd, clock, signal }, nodeId);
    // The age of a result counts from the start of the read, so no reused result is more than a second out of
    // date.
    cached.set(nodeId, { readMs: nowMs, node });
    // A failed read is not reused.
    node.catch(() => cached.delete(nodeId));
    return node;
  };
}

type Lookup = NodeMembership | undefined;

async function readMembership(
  { etcd, clock, signal }: { readonly etcd: KeySpace; readonly clock: Clock; readonly signal: AbortSignal },
  nodeId: string,
): Promise<Lookup> {
  const key = records.node.key(nodeId);
  const limit = { what: `reading ${key}`, ms: READ_MS, clock, signal };
  const { record } = await withTimeout(limit, (child) => records.node.read(etcd, key, child));
  return record && { name: record.name, isMember: isMemberState(record.state) };
}
