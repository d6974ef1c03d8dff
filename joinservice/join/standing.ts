import { absent, unchanged, type Condition, type Entry, type KeySpace } from '../../internal/etcd/index.ts';
import { nodeNameKey, records, type JoinRecord, type NodeRecord } from '../../internal/records/index.ts';
import type { JoinFeed } from './join-feed.ts';
import { wishedName, type Applicant, type JoinPolicy, type Standing } from './policy.ts';

/** What was read, and the conditions under which it still holds. */
export interface StandingNow extends Standing {
  readonly join: JoinRecord | undefined;
  /** Nobody has changed this machine's own request meanwhile. */
  readonly sameJoin: Condition;
  readonly joinRevision: bigint | undefined;
}

/** Everything on record about a machine, linearizably. */
export async function readStanding(
  ports: { readonly etcd: KeySpace; readonly feed: JoinFeed; readonly nowMs: number },
  applicant: Applicant,
  options: { readonly policy: JoinPolicy; readonly signal: AbortSignal },
): Promise<StandingNow> {
  const { etcd, feed, nowMs } = ports;
  const { policy, signal } = options;
  const { nodeId, machine } = applicant;
  const [joinKey, nodeKey] = [records.join.key(nodeId), records.node.key(nodeId)];
  const [joinEntry, node, holder] = await Promise.all([
    etcd.get(joinKey, { signal }),
    readNode(etcd, nodeKey, signal),
    readHolder(etcd, machine.identity, signal),
  ]);
  const join = joinEntry === undefined ? undefined : records.join.decode(joinKey, joinEntry.value);
  const names = namesToLookUp(applicant, join, policy);
  const holders = await Promise.all(names.map((name) => etcd.get(nodeNameKey(name), { signal })));
  const taken = new Map(names.map((name, i) => [name, textOf(holders[i])]));
  return {
    node,
    holder,
    join,
    nameHolder: (name) => taken.get(name) ?? otherThan(nodeId, feed.promisedTo(name, nowMs)),
    sameJoin: joinEntry === undefined ? absent(joinKey) : unchanged(joinEntry),
    joinRevision: joinEntry?.modRevision,
  };
}

async function readNode(etcd: KeySpace, key: string, signal: AbortSignal): Promise<NodeRecord | undefined> {
  const entry = await etcd.get(key, { signal });
  return entry === undefined ? undefined : records.node.decode(key, entry.value);
}

async function readHolder(
  etcd: KeySpace,
  identity: string,
  signal: AbortSignal,
): Promise<NodeRecord | undefined> {
  const key = records.identity.key(identity);
  const entry = await etcd.get(key, { signal });
  if (entry === undefined) return undefined;
  const { nodeId } = records.identity.decode(key, entry.value);
  return readNode(etcd, records.node.key(nodeId), signal);
}

/** Every name that a decision about this machine could give it. */
function namesToLookUp(
  { nodeId, machine, claimed }: Applicant,
  join: JoinRecord | undefined,
  policy: JoinPolicy,
): readonly string[] {
  const listed = policy.inventory.find(({ identity }) => identity === machine.identity)?.name;
  const names = [join?.decision?.name, listed, wishedName(claimed), nodeId];
  return [...new Set(names.filter((name): name is string => name !== undefined && name !== ''))];
}

function otherThan(nodeId: string, holder: string | undefined): string | undefined {
  return holder === nodeId ? undefined : holder;
}

function textOf(entry: Entry | undefined): string | undefined {
  return entry === undefined ? undefined : new TextDecoder().decode(entry.value);
}
