import { absent, type Condition, type Entry, type KeySpace } from '../../internal/etcd/index.ts';
import { nodeIdOfFingerprint } from '../../internal/pki/index.ts';
import {
  records,
  type KnownMachine,
  type NodeRecord,
  type RemovalEntry,
} from '../../internal/records/index.ts';

const BY_KEY = /^machine-key:(?=[0-9a-f]{64}$)/;

/** Sorts machines: `members`, and `open` ones that are neither members nor recorded as removed. */
export async function sortMachines(
  etcd: KeySpace,
  machines: readonly KnownMachine[],
  signal: AbortSignal,
): Promise<{ readonly open: readonly KnownMachine[]; readonly members: readonly KnownMachine[] }> {
  const keys = machines.map((machine) => [removedKeyOf(machine), ...memberKeysOf(machine)]);
  const found = await etcd.readTogether(
    keys.flat().map((key) => ({ key })),
    { signal },
  );
  const entries = new Map(found.flat().map((entry) => [entry.key, entry]));
  const unknown = machines.filter((machine) => !entries.has(removedKeyOf(machine)));
  const holders = unknown.map((machine) =>
    memberKeysOf(machine)
      .flatMap((key) => entries.get(key) ?? [])
      .map(nodeIdIn),
  );
  const open = unknown.filter((_, at) => holders[at]?.length === 0);
  const members = await Promise.all(
    unknown.map(async ({ identity }, at) => {
      const [nodeId] = holders[at] ?? [];
      const member = nodeId === undefined ? undefined : await unexpectedMember(etcd, nodeId, signal);
      return member === undefined ? [] : [{ identity, nodeId: member.nodeId, name: member.name }];
    }),
  );
  return { open, members: members.flat() };
}

/** The record of a member that nobody has admitted with the knowledge of its removal; undefined for every other node. */
async function unexpectedMember(
  etcd: KeySpace,
  nodeId: string,
  signal: AbortSignal,
): Promise<NodeRecord | undefined> {
  const [{ record }, kept] = await Promise.all([
    records.node.read(etcd, records.node.key(nodeId), signal),
    etcd.get(records.keptWorker.key(nodeId), { signal }),
  ]);
  const isByPolicy = record?.admission?.decidedBy.startsWith('policy:') === true;
  return kept !== undefined || isByPolicy ? record : undefined;
}

function removedKeyOf({ identity }: KnownMachine): string {
  return records.removed.key(identity);
}

/** The records of which one exists if the machine is a member: under its identity, the ID of its last node, and the ID of its key. */
function memberKeysOf({ identity, nodeId }: KnownMachine): readonly string[] {
  const ofKey = BY_KEY.test(identity) ? nodeIdOfFingerprint(identity.replace(BY_KEY, '')) : nodeId;
  return [records.identity.key(identity), records.node.key(nodeId), records.node.key(ofKey)];
}

function nodeIdIn({ key, value }: Entry): string {
  return key.startsWith(records.identity.key(''))
    ? records.identity.decode(key, value).nodeId
    : records.node.decode(key, value).nodeId;
}

/** The machine has not become a member meanwhile. */
export function notMember(machine: KnownMachine): readonly Condition[] {
  return memberKeysOf(machine).map(absent);
}

/** A removal that does not exist yet. */
export function noRemovalYet(machine: KnownMachine): RemovalEntry {
  const { identity } = machine;
  return { identity, entry: undefined, record: undefined, unchanged: absent(removedKeyOf(machine)) };
}
