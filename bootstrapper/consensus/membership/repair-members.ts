import { isAbort } from '../../../internal/errors/index.ts';
import { Namespace, type EtcdClient, type KeySpace, type Member } from '../../../internal/etcd/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import {
  CLUSTER_PREFIX,
  NODES_PREFIX,
  parseNodeKey,
  records,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { isMemberState } from '../../../internal/role/index.ts';
import { withSlot } from './slot.ts';

/** Pause before a failed removal is retried. */
const RETRY_MS = 3_000;
const LIST_MS = 5_000;

/** Ports (injected dependencies) for the removal of lost members. */
export interface RepairPorts extends Pick<SystemPorts, 'clock' | 'log'> {
  /** Client of the local member, authenticated as root. */
  readonly admin: Pick<EtcdClient, 'members'> & KeySpace;
  /** Client of the state etcd. Only the records of the nodes are read from it. */
  readonly recordsEtcd: KeySpace;
}

/**
 * Removes members whose node was removed from the records, until the signal is aborted. A lost node cannot
 * leave etcd by itself. Every control plane watches the records; the slot ensures that only one of them acts.
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

/**
 * Returns the members whose node was removed. A member that has not started has no name and is left out; the
 * next node that joins removes it.
 */
export function membersOfRemovedNodes(
  members: readonly Member[],
  nodes: readonly Pick<NodeRecord, 'nodeId' | 'state'>[],
): readonly Member[] {
  const nodeIds = new Set(nodes.filter(({ state }) => isMemberState(state)).map((node) => node.nodeId));
  return members.filter(({ name }) => name !== '' && !nodeIds.has(name));
}

async function untilRepaired(ports: RepairPorts, nodeId: string, signal: AbortSignal): Promise<void> {
  const { admin, clock, log } = ports;
  const etcd = new Namespace(admin, CLUSTER_PREFIX);
  for (;;) {
    try {
      if ((await findRemoved(ports, signal)).length === 0) return;
      await withSlot({ etcd, clock, log }, { nodeId, onPosition: () => undefined, signal }, async (slot) => {
        for (const member of await findRemoved(ports, slot.signal)) {
          log.warn('removing the etcd member of a removed node', { node: member.name });
          await admin.members.remove(member.id, { signal: slot.signal });
        }
      });
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      // Expected for a moment after each change of members, when etcd reports itself unhealthy.
      log.info('removing a member failed, retrying', { error });
      await clock.sleep(RETRY_MS, signal);
    }
  }
}

/** Reads the records after the list of members, so that the record of every listed member already exists. */
async function findRemoved(
  { admin, recordsEtcd }: RepairPorts,
  signal: AbortSignal,
): Promise<readonly Member[]> {
  const listed = await admin.members.list({ signal, timeoutMs: LIST_MS });
  const { entries } = await new Namespace(recordsEtcd, CLUSTER_PREFIX).list(NODES_PREFIX, { signal });
  const nodes = entries
    .filter(({ key }) => parseNodeKey(key)?.part === 'record')
    .map(({ key, value }) => records.node.decode(key, value));
  // Before the first records of the cluster exist, members cannot be compared with records.
  return nodes.length === 0 ? [] : membersOfRemovedNodes(listed, nodes);
}
