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
/** Peers may still be down. After this time, the caller tries again. */
const READY_TIMEOUT_MS = 60_000;

/** A member of this node that is about to serve requests. */
export interface JoinContext extends PeerContext {
  /** Client of the local member as root. */
  readonly admin: EtcdClient;
}

/**
 * Joins etcd while this node holds the membership slot. This node is added as a learner, started, and
 * promoted to a voting member once it has the data of the other members.
 */
export async function joinEtcd(ports: ConsensusPorts, context: JoinContext): Promise<void> {
  const { config, admin } = context;
  await withServingPeers(ports, context, (peers) =>
    withMembershipSlot(ports, peers, context, async (membership, slot) => {
      const { members } = await addLearner(membership, slot, ownMemberOf(config));
      await runEtcd(ports, config, { origin: { kind: 'added', members } }, slot.signal);
      await promoteOwnMember(membership, slot, ownMemberOf(config));
      await waitUntilServing(ports, admin, config, slot.signal);
    }),
  );
}

/**
 * Waits until an existing member serves requests. A learner from an interrupted join is promoted first,
 * because a learner does not serve.
 */
export async function resumeMember(ports: ConsensusPorts, context: JoinContext): Promise<void> {
  const { config, admin, signal } = context;
  const marker = await ports.files.stat(config.layout.memberMarker);
  const wasMember = config.createsCluster || marker !== undefined;
  if (!wasMember)
    await withServingPeers(ports, context, (peers) =>
      withMembershipSlot(ports, peers, context, (membership, slot) =>
        promoteOwnMember(membership, slot, ownMemberOf(config)),
      ),
    );
  await waitUntilServing(ports, admin, config, signal);
}

/**
 * Updates the peer URL of this member if the address of the machine has changed. The certificates already
 * contain the new address.
 */
export async function updatePeerUrl(
  { log }: Pick<ConsensusPorts, 'log'>,
  { config, admin, signal }: JoinContext,
): Promise<void> {
  const wanted = urlOf(config.address, config.ports.peer);
  const own = (await admin.members.list({ signal })).find(({ name }) => name === config.nodeId);
  if (own === undefined || own.peerUrls.includes(wanted)) return;
  log.info('updating the peer URL of this member', { old: own.peerUrls, new: wanted });
  await admin.members.setPeerUrl(own.id, wanted, { signal });
}

/**
 * Waits for a linearizable read, which succeeds once the member runs and etcd has a leader.
 * @throws ConsensusError `consensus-not-ready`
 */
export async function waitUntilServing(
  { clock, onWait }: Pick<ConsensusPorts, 'clock' | 'onWait'>,
  admin: EtcdClient,
  { etcd, readyTimeoutMs = READY_TIMEOUT_MS }: Pick<ConsensusConfig, 'etcd' | 'readyTimeoutMs'>,
  signal: AbortSignal,
): Promise<void> {
  const endMs = clock.monotonicMs() + readyTimeoutMs;
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
