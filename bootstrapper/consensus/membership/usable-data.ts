import { isAbort } from '../../../internal/errors/index.ts';
import { ownMemberOf, type ConsensusPorts, type ConsensusStart } from '../consensus-config.ts';
import { readEpoch, type NewestEpoch } from '../recovery/epoch.ts';
import { findOwnMember } from './membership.ts';
import { withPeers, type PeerContext } from './peers.ts';

const PROBE_MS = 2_000;

/** Facts about the other members that are known before this member starts. */
export interface StartContext extends PeerContext {
  readonly newest: NewestEpoch;
  /** See `ConsensusStart`. */
  readonly beforeRejoin: ConsensusStart['beforeRejoin'];
}

/**
 * Whether the data on disk can be used. The data is deleted if this node was removed from etcd and later got
 * its role again, and if the data is of an older epoch. If no member answers, the data is used. Members of an
 * older epoch are not asked, because they may have removed a member that was recovered without them.
 */
export async function hasUsableData(ports: ConsensusPorts, context: StartContext): Promise<boolean> {
  const { config, newest } = context;
  const { layout } = config;
  const { files, log } = ports;
  if ((await files.stat(layout.memberData)) === undefined) return false;
  const own = await readEpoch(files, layout);
  if (newest.epoch > own) {
    await context.beforeRejoin?.(newest, context.signal);
    log.warn('the quorum was recovered without this node: deleting its data and joining again', {});
    await deleteData(ports, context);
    return false;
  }
  if (config.peers.length === 0 || (newest.epoch > 0 && newest.epoch < own)) return true;
  if ((await isStillMember(ports, context)) !== false) return true;
  log.warn('this node was removed from etcd: deleting its data and joining again', {});
  await deleteData(ports, context);
  return false;
}

/** Returns undefined if no member answered. */
async function isStillMember(ports: ConsensusPorts, context: StartContext): Promise<boolean | undefined> {
  const { config, signal } = context;
  try {
    return await withPeers(ports, config, async (peers) => {
      const listed = await peers.members.list({ signal, timeoutMs: PROBE_MS });
      return findOwnMember(listed, ownMemberOf(config)) !== undefined;
    });
  } catch (error) {
    if (isAbort(error, signal)) throw error;
    ports.log.info('no member answered whether this node is still a member', { error });
    return undefined;
  }
}

async function deleteData(
  { files, units }: ConsensusPorts,
  { config: { etcd, layout }, signal }: PeerContext,
): Promise<void> {
  await units.stop(etcd.unit, signal);
  for (const path of [layout.memberData, layout.data, layout.memberMarker, layout.epochFile])
    await files.remove(path);
  await files.makeDirectory(layout.data);
}
