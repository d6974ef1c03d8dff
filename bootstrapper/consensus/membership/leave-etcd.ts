import type { ConsensusLayout } from '../consensus-layout.ts';
import { ownMemberOf, type ConsensusConfig, type ConsensusPorts } from '../consensus-config.ts';
import { checkLeaveGuard, removeOwnMember } from './membership.ts';
import { countAnswering, withMembershipSlot, withPeers } from './peers.ts';

const PROBE_MS = 2_000;

/**
 * Throws if `leaveEtcd` would refuse. Never throws if this node has no data of etcd.
 * @throws ConsensusError `consensus-last-member` or `consensus-quorum`
 */
export async function checkLeave(
  ports: ConsensusPorts,
  config: ConsensusConfig,
  signal: AbortSignal,
): Promise<void> {
  const { layout } = config;
  if (!(await isCounted(ports, layout))) return;
  if (config.peers.length === 0) return checkLeaveGuard(0, 0);
  await withPeers(ports, config, async ({ members }) => {
    const listed = await members.list({ signal, timeoutMs: PROBE_MS });
    const own = listed.find(({ name }) => name === config.nodeId);
    if (own === undefined || own.isLearner) return;
    const others = listed.filter(({ id, isLearner }) => !isLearner && id !== own.id);
    checkLeaveGuard(others.length, await countAnswering(ports, layout, others, signal));
  });
}

/**
 * Removes this node from the members, and then deletes its data and keys. Refuses if the other members have no
 * quorum without this member. May be repeated after any crash.
 * @returns false if this node had no files of etcd
 */
export async function leaveEtcd(
  ports: ConsensusPorts,
  config: ConsensusConfig,
  signal: AbortSignal,
): Promise<boolean> {
  const { files, units, log } = ports;
  const { layout } = config;
  const found = (await files.stat(layout.root)) ?? (await files.stat(layout.etcdHome));
  if (found === undefined) return false;
  if (await isCounted(ports, layout))
    await withPeers(ports, config, (peers) =>
      withMembershipSlot(ports, peers, { config, signal }, (membership, slot) =>
        removeOwnMember(membership, slot, ownMemberOf(config), (others) =>
          countAnswering(ports, layout, others, signal),
        ),
      ),
    );
  await units.stop(config.etcd.unit, signal);
  await deleteFiles(ports, layout);
  log.info('left etcd', { etcd: config.etcd.name });
  return true;
}

/**
 * Whether etcd may count this node as a member. Data and root key are deleted last: if one of them is
 * missing, this node has already left.
 */
async function isCounted(
  { files }: Pick<ConsensusPorts, 'files'>,
  layout: ConsensusLayout,
): Promise<boolean> {
  const stats = [await files.stat(layout.user('root').certFile), await files.stat(layout.memberData)];
  return stats.every((stat) => stat !== undefined);
}

/**
 * Deletes the data before the keys: while data exists, the keys are needed to ask the other members about
 * this member.
 */
async function deleteFiles({ files }: Pick<ConsensusPorts, 'files'>, layout: ConsensusLayout): Promise<void> {
  for (const path of [layout.memberData, layout.data, layout.memberMarker, layout.etcdHome, layout.root])
    await files.remove(path);
}
