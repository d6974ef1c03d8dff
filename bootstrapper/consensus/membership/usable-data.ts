import { isAbort } from '../../../internal/errors/index.ts';
import { ownMemberOf, type ConsensusPorts } from '../consensus-config.ts';
import { readEpoch, type NewestEpoch } from '../recovery/epoch.ts';
import { findOwnMember } from './membership.ts';
import { withPeers, type PeerContext } from './peers.ts';

const PROBE_MS = 2_000;

/** What of the other members is known before this one starts. */
export interface StartContext extends PeerContext {
  readonly newest: NewestEpoch;
}

/**
 * Whether there is data that this cluster still counts on. Who was removed, by a demotion that did not end or by an
 * operator, and has the role again, begins anew; where nobody can be asked, the data is used. Those of an older epoch
 * are not asked: they may have removed whoever went on without them.
 */
export async function hasUsableData(ports: ConsensusPorts, found: StartContext): Promise<boolean> {
  const { config, newest, layout } = found;
  const { files, log } = ports;
  if ((await files.stat(layout.memberData)) === undefined) return false;
  const own = await readEpoch(files, layout);
  if (newest.epoch > own) {
    log.warn('the cluster was recovered without this node: its old data goes, and it joins anew', {});
    await giveUpData(ports, found);
    return false;
  }
  if (config.peers.length === 0 || (newest.epoch > 0 && newest.epoch < own)) return true;
  if ((await isStillMember(ports, found)) !== false) return true;
  log.warn('this node was removed from etcd: its old data goes, and it joins anew', {});
  await giveUpData(ports, found);
  return false;
}

/** undefined: nobody could be asked. */
async function isStillMember(ports: ConsensusPorts, found: StartContext): Promise<boolean | undefined> {
  const { config, signal } = found;
  try {
    return await withPeers(ports, found, async (peers) => {
      const listed = await peers.members.list({ signal, timeoutMs: PROBE_MS });
      return findOwnMember(listed, ownMemberOf(config)) !== undefined;
    });
  } catch (error) {
    if (isAbort(error, signal)) throw error;
    ports.log.info('nobody could be asked whether this node is still a member', { error });
    return undefined;
  }
}

async function giveUpData(
  { files, units }: ConsensusPorts,
  { config, layout, signal }: PeerContext,
): Promise<void> {
  await units.stop(config.etcd.unit, signal);
  for (const path of [layout.memberData, layout.data, layout.memberMarker, layout.epochFile])
    await files.remove(path);
  await files.makeDirectory(layout.data);
}
