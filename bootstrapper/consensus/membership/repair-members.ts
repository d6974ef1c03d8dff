import type { Clock } from '../../../internal/clock/index.ts';
import { isAbort } from '../../../internal/errors/index.ts';
import { Namespace, type EtcdClient, type KeySpace, type Member } from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import {
  CLUSTER_PREFIX,
  NODES_PREFIX,
  parseNodeKey,
  records,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { isMemberState } from '../../../internal/role/index.ts';
import { withSlot } from './slot.ts';

/** Between two attempts at what etcd would not do just now. */
const RETRY_MS = 3_000;
const LIST_MS = 5_000;

export interface RepairPorts {
  /** The local member, as its root. */
  readonly admin: Pick<EtcdClient, 'members'> & KeySpace;
  /** The etcd with the records of the nodes, of which only those are read; `admin` where it is the same. */
  readonly recordsEtcd: KeySpace;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Takes members out of etcd whose node was struck off the records: one that was lost cannot leave by itself. Each control
 * plane looks at every change of a record; the slot sees to it that one of them acts. Until the signal fires.
 */
export async function repairMembers(ports: RepairPorts, nodeId: string, signal: AbortSignal): Promise<void> {
  const cluster = new Namespace(ports.recordsEtcd, CLUSTER_PREFIX);
  for await (const event of cluster.watch(NODES_PREFIX, { signal })) {
    const keys =
      event.kind === 'relist'
        ? event.entries.map(({ key }) => key)
        : event.kind === 'changes'
          ? event.changes.map((change) => (change.kind === 'put' ? change.entry.key : change.key))
          : [];
    if (keys.some((key) => parseNodeKey(key)?.part === 'record')) await untilRepaired(ports, nodeId, signal);
  }
}

/** Members that belong to no node any more. One that has not started yet has no name and is its joiner's to clear up. */
export function membersOfRemovedNodes(
  members: readonly Member[],
  nodes: readonly Pick<NodeRecord, 'nodeId' | 'state'>[],
): readonly Member[] {
  const counted = new Set(nodes.filter(({ state }) => isMemberState(state)).map((node) => node.nodeId));
  return members.filter(({ name }) => name !== '' && !counted.has(name));
}

async function untilRepaired(ports: RepairPorts, nodeId: string, signal: AbortSignal): Promise<void> {
  const { admin, clock, log } = ports;
  const etcd = new Namespace(admin, CLUSTER_PREFIX);
  for (;;) {
    try {
      if ((await findStruck(ports, signal)).length === 0) return;
      await withSlot({ etcd, clock, log }, { nodeId, onPosition: () => undefined, signal }, async (slot) => {
        for (const member of await findStruck(ports, slot.signal)) {
          log.warn('removing the etcd member of a removed node', { node: member.name });
          await admin.members.remove(member.id, { signal: slot.signal });
        }
      });
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      // Also "unhealthy" for a moment after each change of members.
      log.info('a member that was struck off could not be removed yet', { error });
      await clock.sleep(RETRY_MS, signal);
    }
  }
}

/** The records are read after the members: who is on record by then had a reason to be one. */
async function findStruck(
  { admin, recordsEtcd: recorded }: RepairPorts,
  signal: AbortSignal,
): Promise<readonly Member[]> {
  const listed = await admin.members.list({ signal, timeoutMs: LIST_MS });
  const { entries } = await new Namespace(recorded, CLUSTER_PREFIX).list(NODES_PREFIX, { signal });
  const nodes = entries
    .filter(({ key }) => parseNodeKey(key)?.part === 'record')
    .map(({ key, value }) => records.node.decode(key, value));
  // Before the cluster's first record there is nobody to compare with.
  return nodes.length === 0 ? [] : membersOfRemovedNodes(listed, nodes);
}
