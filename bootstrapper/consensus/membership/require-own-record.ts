import { Namespace } from '../../../internal/etcd/index.ts';
import { CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import type { ConsensusPorts } from '../consensus-config.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import { ConsensusError } from '../errors.ts';
import { connectAsRoot } from '../unit/run-etcd.ts';

/**
 * Requires that the cluster of these control planes has a record of this node. A control plane that was away while its cluster was restored
 * from a backup, or while it was removed, has credentials that the other members of etcd accept, but it is no member of the cluster any more.
 * @param at.layout of the state etcd, which has the records
 * @param at.endpoints state etcds of the newest epoch
 * @throws ConsensusError `consensus-node-removed`
 */
export async function requireOwnRecord(
  ports: ConsensusPorts,
  at: {
    readonly layout: ConsensusLayout;
    readonly nodeId: string;
    readonly endpoints: readonly string[];
  },
  signal: AbortSignal,
): Promise<void> {
  const { layout, nodeId, endpoints } = at;
  const [first, ...others] = endpoints;
  if (first === undefined) throw new RangeError('no control plane to ask for the record of this node');
  using etcd = await connectAsRoot(ports, layout, [first, ...others]);
  const key = records.node.key(nodeId);
  const { record } = await records.node.read(new Namespace(etcd, CLUSTER_PREFIX), key, signal);
  if (record === undefined)
    throw new ConsensusError(
      'consensus-node-removed',
      `joining etcd again as ${nodeId}: the cluster of ${endpoints.join(', ')} has no record of this node`,
    );
}
