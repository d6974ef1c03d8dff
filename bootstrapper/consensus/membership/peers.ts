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

/** A question to the other members of etcd. */
export interface PeerContext {
  readonly config: ConsensusConfig;
  readonly layout: ConsensusLayout;
  readonly signal: AbortSignal;
}

/** Works with the other members as their root; whichever answers. */
export async function withPeers<T>(
  ports: ConsensusPorts,
  { config, layout }: Omit<PeerContext, 'signal'>,
  work: (peers: EtcdClient) => Promise<T>,
): Promise<T> {
  const [first, ...more] = config.peers;
  if (first === undefined)
    throw new ConsensusError(
      'consensus-no-peers',
      `changing the members of ${config.etcd.title} as ${config.nodeId}`,
    );
  using peers = await connectAsRoot(ports, layout, [first, ...more]);
  const done = await work(peers);
  return done;
}

/** A read goes on to the next member where a write fails: of two that join at once, each knows the other, which does not serve yet. */
export async function withServingPeers<T>(
  ports: ConsensusPorts,
  of: PeerContext,
  work: (peers: EtcdClient) => Promise<T>,
): Promise<T> {
  return withPeers(ports, of, async (peers) => {
    await peers.get('ready', { signal: of.signal, timeoutMs: PROBE_MS });
    return work(peers);
  });
}

/** Works in this node's turn to change etcd's members. */
export async function withMembershipSlot<T>(
  { clock, log, onWait }: ConsensusPorts,
  peers: EtcdClient,
  { config: { nodeId, etcd }, signal }: PeerContext,
  work: (membership: MembershipPorts, slot: Slot) => Promise<T>,
): Promise<T> {
  const onPlace = (place: number, estimateMs: number): void =>
    onWait?.(
      `the turn of this node to change ${etcd.title}: place ${place}, about ${Math.ceil(estimateMs / 1000)} s`,
      undefined,
    );
  const membership: MembershipPorts = {
    ...{ members: peers.members, clock, log },
    onProgress: (what, lastError) => onWait?.(what, lastError),
  };
  const slots = new Namespace(peers, CLUSTER_PREFIX);
  return withSlot({ etcd: slots, clock, log }, { nodeId, onPosition: onPlace, signal }, (slot) =>
    work(membership, slot),
  );
}

/** How many of these members answer by themselves. */
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
        return false; // whatever the reason: it cannot be counted on
      }
    }),
  );
  signal.throwIfAborted();
  return answers.filter(Boolean).length;
}

/** What of these members is the cluster now; each is asked by itself. */
export async function findNewestEpoch(
  ports: ConsensusPorts,
  endpoints: readonly string[],
  { config, layout, signal }: PeerContext,
): Promise<NewestEpoch> {
  using peers = new PeerEpochs(config.etcd.name, (endpoint) => connectAsRoot(ports, layout, [endpoint]));
  return await peers.newest(endpoints, signal);
}
