import { EtcdError, type EtcdClient } from '../../../internal/etcd/index.ts';
import { isAbort } from '../../../internal/errors/index.ts';
import { ownMemberOf, type ConsensusConfig, type ConsensusPorts } from '../consensus-config.ts';
import { urlOf } from '../unit/etcd-unit.ts';
import { ConsensusError } from '../errors.ts';
import { addLearner, promoteOwnMember } from './membership.ts';
import { withMembershipSlot, withServingPeers, type PeerContext } from './peers.ts';
import { runEtcd } from '../unit/run-etcd.ts';

const POLL_MS = 200;
const PROBE_MS = 2_000;
/** With peers that are still down this may pass; the caller asks again. */
const READY_MS = 60_000;

/** This node's member on its way to serving. */
export interface JoinContext extends PeerContext {
  /** The local member as its root. */
  readonly admin: EtcdClient;
}

/** Into the cluster: in the slot a learner, started, caught up, a voter. */
export async function joinEtcd(ports: ConsensusPorts, entering: JoinContext): Promise<void> {
  const { config, layout, admin } = entering;
  await withServingPeers(ports, entering, (peers) =>
    withMembershipSlot(ports, peers, entering, async (membership, slot) => {
      const { members } = await addLearner(membership, slot, ownMemberOf(config));
      const settings = { ...config, origin: { kind: 'added', members } } as const;
      await runEtcd(ports, { ...config, layout, settings }, slot.signal);
      await promoteOwnMember(membership, slot, ownMemberOf(config));
      await waitUntilServing(ports, admin, config, slot.signal);
    }),
  );
}

/** A member that was on its way in when an earlier life ended is still a learner, which serves nothing by itself. */
export async function resumeMember(ports: ConsensusPorts, entering: JoinContext): Promise<void> {
  const { config, layout, admin, signal } = entering;
  const isFormed = config.createsCluster || (await ports.files.stat(layout.memberMarker)) !== undefined;
  if (!isFormed)
    await withServingPeers(ports, entering, (peers) =>
      withMembershipSlot(ports, peers, entering, (membership, slot) =>
        promoteOwnMember(membership, slot, ownMemberOf(config)),
      ),
    );
  await waitUntilServing(ports, admin, config, signal);
}

/** A machine that came back with another address tells its peers; certificates and listeners were made for it before. */
export async function updatePeerUrl(
  { log }: Pick<ConsensusPorts, 'log'>,
  { config, admin, signal }: JoinContext,
): Promise<void> {
  const wanted = urlOf(config.address, config.ports.peer);
  const own = (await admin.members.list({ signal })).find(({ name }) => name === config.nodeId);
  if (own === undefined || own.peerUrls.includes(wanted)) return;
  log.info('this node has a new address', { was: own.peerUrls, is: wanted });
  await admin.members.setPeerUrl(own.id, wanted, { signal });
}

/** A linearizable read: the member runs, has its peers, and they have a leader. */
export async function waitUntilServing(
  { clock, onWait }: Pick<ConsensusPorts, 'clock' | 'onWait'>,
  admin: EtcdClient,
  { etcd, readyTimeoutMs: readyMs = READY_MS }: ConsensusConfig,
  signal: AbortSignal,
): Promise<void> {
  const endMs = clock.monotonicMs() + readyMs;
  for (;;) {
    try {
      await admin.get('ready', { signal, timeoutMs: PROBE_MS });
      return;
    } catch (error) {
      if (isAbort(error, signal) || !(error instanceof EtcdError && error.retryable)) throw error;
      onWait?.(`${etcd.title} to serve`, error);
      if (clock.monotonicMs() > endMs)
        throw new ConsensusError('consensus-not-ready', `waiting for ${etcd.title} to serve`, {
          cause: error,
        });
      await clock.sleep(POLL_MS, signal);
    }
  }
}
