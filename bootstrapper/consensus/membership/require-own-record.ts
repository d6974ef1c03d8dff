import { Namespace } from '../../../internal/etcd/index.ts';
import { CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import type { ConsensusConfig, ConsensusPorts } from '../consensus-config.ts';
import { ConsensusError } from '../errors.ts';
import { connectAsRoot } from '../unit/run-etcd.ts';
import { findNewestEpoch } from './peers.ts';

/**
 * Requires that the cluster of the newest epoch has a record of this node. A control plane that was away while its cluster was restored
 * from a backup, or while it was removed, has credentials that the other members of etcd accept, but it is no member of the cluster any more.
 * @param config of the state etcd, which has the records
 * @throws ConsensusError `consensus-node-removed`, `consensus-no-peers` if nobody answers
 */
export async function requireOwnRecord(
  ports: ConsensusPorts,
  config: Pick<ConsensusConfig, 'etcd' | 'layout' | 'nodeId' | 'peers'>,
  signal: AbortSignal,
): Promise<void> {
  const { layout, nodeId, peers } = config;
  const { epoch, endpoints } = await findNewestEpoch(ports, peers, config, signal);
  const doing = `joining etcd again as ${nodeId}`;
  const [first, ...others] = endpoints;
  if (first === undefined)
    throw new ConsensusError('consensus-no-peers', `${doing}: no control plane answers`);
  using etcd = await connectAsRoot(ports, layout, [first, ...others]);
  const key = records.node.key(nodeId);
  const { record } = await records.node.read(new Namespace(etcd, CLUSTER_PREFIX), key, signal);
  if (record === undefined)
    throw new ConsensusError(
      'consensus-node-removed',
      `${doing}: the cluster of epoch ${epoch} has no record of this node`,
    );
}
