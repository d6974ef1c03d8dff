import { formatDuration } from '../../../internal/clock/index.ts';
import { Namespace, type EtcdClient, type Member } from '../../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../../internal/records/index.ts';
import type { ConsensusConfig, ConsensusPorts } from '../consensus-config.ts';
import type { NewestEpoch } from '../recovery/epoch.ts';
import { ConsensusError } from '../errors.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';
import type { MembershipPorts } from './membership.ts';
import { PeerEpochs } from '../recovery/peer-epochs.ts';
import { connectAsRoot } from '../unit/run-etcd.ts';
import { withSlot, type Slot } from './slot.ts';

const PROBE_MS = 2_000;

/** Configuration of the node that calls the other members. */
export interface PeerContext {
  readonly config: ConsensusConfig;
  readonly signal: AbortSignal;
}

/**
 * Runs `work` with a client of the other members, authenticated as root. The first member that answers is
 * used.
 * @throws ConsensusError `consensus-no-peers`
 */
export async function withPeers<T>(
  ports: ConsensusPorts,
  { peers: [first, ...more], etcd, nodeId, layout }: ConsensusConfig,
  work: (peers: EtcdClient) => Promise<T>,
): Promise<T> {
  if (first === undefined)
    throw new ConsensusError('consensus-no-peers', `changing the members of ${etcd.title} as ${nodeId}`);
  using peers = await connectAsRoot(ports, layout, [first, ...more]);
  return await work(peers);
}

/**
 * Like `withPeers`, but uses a member that serves requests: of two nodes that join at the same time, each lists the
 * other, and neither serves yet. A failed read tries the next member, a failed write does not.
 */
export async function withServingPeers<T>(
  ports: ConsensusPorts,
  { config, signal }: PeerContext,
  work: (peers: EtcdClient) => Promise<T>,
): Promise<T> {
  return withPeers(ports, config, async (peers) => {
    await peers.get('ready', { signal, timeoutMs: PROBE_MS });
    return work(peers);
  });
}

/**
 * Runs `work` while this node holds the membership slot, whose holder alone may change the members of etcd.
 */
export async function withMembershipSlot<T>(
  { clock, log, onWait }: ConsensusPorts,
  peers: EtcdClient,
  { config: { nodeId, etcd }, signal }: PeerContext,
  work: (membership: MembershipPorts, slot: Slot) => Promise<T>,
): Promise<T> {
  const onPosition = (position: number, estimateMs: number): void => {
    const what = `the slot to change the members of ${etcd.title}: position ${position}`;
    onWait?.(`${what}, about ${formatDuration(estimateMs)}`, undefined);
  };
  const membership: MembershipPorts = {
    ...{ members: peers.members, clock, log },
    onProgress: (what, lastError) => onWait?.(what, lastError),
  };
  const slots = new Namespace(peers, CLUSTER_PREFIX);
  return withSlot({ etcd: slots, clock, log }, { nodeId, onPosition, signal }, (slot) =>
    work(membership, slot),
  );
}

/** Counts the members that answer. Each member is asked directly. */
export async function countAnswering(
  ports: ConsensusPorts,
  layout: ConsensusLayout,
  members: readonly Member[],
  signal: AbortSignal,
): Promise<number> {
  const answers = await Promise.all(
    members.map(async ({ clientUrls: [url] }) => {
      if (url === undefined) return false;
      using client = await connectAsRoot(ports, layout, [url.replace('https://', '')]);
      try {
        await client.maintenance.status({ signal, timeoutMs: PROBE_MS });
        return true;
      } catch {
        return false; // for any error: a member that fails does not count for the quorum
      }
    }),
  );
  signal.throwIfAborted();
  return answers.filter(Boolean).length;
}

/** Returns the newest epoch of these members. Each member is asked directly. */
export async function findNewestEpoch(
  ports: ConsensusPorts,
  endpoints: readonly string[],
  { etcd, layout }: Pick<ConsensusConfig, 'etcd' | 'layout'>,
  signal: AbortSignal,
): Promise<NewestEpoch> {
  using peers = new PeerEpochs(etcd.name, (endpoint) => connectAsRoot(ports, layout, [endpoint]));
  return await peers.newest(endpoints, signal);
}
