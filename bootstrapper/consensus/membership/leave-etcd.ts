import { consensusLayout, type ConsensusLayout } from '../consensus-layout.ts';
import { ownMemberOf, type ConsensusConfig, type ConsensusPorts } from '../consensus-config.ts';
import { checkLeaveGuard, removeOwnMember } from './membership.ts';
import { countAnswering, withMembershipSlot, withPeers } from './peers.ts';

const PROBE_MS = 2_000;

/** Throws `consensus-last-member` or `consensus-quorum` where `leave` would. Says nothing of a node without data. */
export async function checkLeave(
  ports: ConsensusPorts,
  config: ConsensusConfig,
  signal: AbortSignal,
): Promise<void> {
  const layout = consensusLayout(config.stateDir, config.etcd.name);
  if (!(await isCountedOn(ports, layout))) return;
  if (config.peers.length === 0) return checkLeaveGuard(0, 0);
  await withPeers(ports, { config, layout }, async ({ members }) => {
    const listed = await members.list({ signal, timeoutMs: PROBE_MS });
    const own = listed.find(({ name }) => name === config.nodeId);
    if (own === undefined || own.isLearner) return;
    const others = listed.filter(({ id, isLearner }) => !isLearner && id !== own.id);
    checkLeaveGuard(others.length, await countAnswering(ports, layout, others, signal));
  });
}

/** Out of the members, and only then are data and keys wiped. Answers whether there was anything. */
export async function leaveEtcd(
  ports: ConsensusPorts,
  config: ConsensusConfig,
  signal: AbortSignal,
): Promise<boolean> {
  const { files, units, log } = ports;
  const layout = consensusLayout(config.stateDir, config.etcd.name);
  const isHere = (await files.stat(layout.root)) ?? (await files.stat(layout.etcdHome));
  if (isHere === undefined) return false;
  if (await isCountedOn(ports, layout))
    await withPeers(ports, { config, layout }, (peers) =>
      withMembershipSlot(ports, peers, { config, layout, signal }, (membership, slot) =>
        removeOwnMember(membership, slot, ownMemberOf(config), (others) =>
          countAnswering(ports, layout, others, signal),
        ),
      ),
    );
  await units.stop(config.etcd.unit, signal);
  await wipe(ports, layout);
  log.info('this node left etcd', { etcd: config.etcd.name });
  return true;
}

/** The root user's key goes after the data: without either, an earlier life has left already. */
async function isCountedOn(
  { files }: Pick<ConsensusPorts, 'files'>,
  layout: ConsensusLayout,
): Promise<boolean> {
  const stats = [await files.stat(layout.user('root').certFile), await files.stat(layout.memberData)];
  return stats.every((stat) => stat !== undefined);
}

/** Data first, keys after it: while there is data, it can be asked whether the cluster still counts on it. */
async function wipe({ files }: Pick<ConsensusPorts, 'files'>, layout: ConsensusLayout): Promise<void> {
  for (const path of [layout.memberData, layout.data, layout.memberMarker, layout.etcdHome, layout.root])
    await files.remove(path);
}
