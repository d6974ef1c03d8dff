import { isAbort } from '../../../internal/errors/index.ts';
import { EtcdError, type EtcdClient, type Member } from '../../../internal/etcd/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { leaveGuard, quorumOf } from '../../../internal/role/index.ts';
import { ConsensusError } from '../errors.ts';
import type { Slot } from './slot.ts';

const POLL_MS = 300;
/** Time for which a change of members is retried while etcd refuses it temporarily. */
const CHANGE_MS = 120_000;
const LIST_MS = 5_000;

/** Ports (injected dependencies) for a change of members. */
export interface MembershipPorts extends Pick<SystemPorts, 'clock' | 'log'> {
  /** Client of the other members, authenticated as root. */
  readonly members: EtcdClient['members'];
  readonly onProgress: (what: string, lastError?: unknown) => void;
}

/** This node as a member of etcd. */
export interface OwnMember {
  readonly nodeId: string;
  readonly peerUrl: string;
}

/** Finds this node among the members: by its name, or by its peer URL before its first start. */
export function findOwnMember(
  members: readonly Member[],
  { nodeId, peerUrl }: OwnMember,
): Member | undefined {
  return (
    members.find(({ name }) => name === nodeId) ?? members.find(({ peerUrls }) => peerUrls.includes(peerUrl))
  );
}

/**
 * Adds this node, which has no data, as a learner. First removes the learner of a node that died while it
 * held the slot, and an earlier member of this node. A learner of this node that has not started yet is
 * reused.
 * @returns the peer URL of each member by name, including this node, and the member id of this node
 * @throws ConsensusError `consensus-address-taken`, `consensus-not-ready`
 */
export async function addLearner(
  ports: MembershipPorts,
  slot: Slot,
  self: OwnMember,
): Promise<{ readonly memberId: bigint; readonly members: Readonly<Record<string, string>> }> {
  const { members, log } = ports;
  const intent = await slot.readIntent();
  return retrying(ports, { what: 'etcd to accept this node as a learner', signal: slot.signal }, async () => {
    let listed = await members.list({ signal: slot.signal, timeoutMs: LIST_MS });
    if (intent !== undefined && intent.nodeId !== self.nodeId) {
      const left = listed.find(
        ({ id, isLearner, peerUrls }) =>
          isLearner && (id.toString(16) === intent.memberId || peerUrls.includes(intent.peerUrl)),
      );
      if (left !== undefined) {
        log.info('removing the learner of a node that died while it joined', { node: intent.nodeId });
        await members.remove(left.id, { signal: slot.signal });
        listed = listed.filter(({ id }) => id !== left.id);
      }
    }
    let own = findOwnMember(listed, self);
    if (own !== undefined && own.name !== '' && own.name !== self.nodeId)
      throw new ConsensusError(
        'consensus-address-taken',
        `joining etcd as ${self.nodeId}: member ${own.name} has the address ${self.peerUrl}`,
        { details: { member: own.name } },
      );
    if (own !== undefined && own.name !== '') {
      log.info('removing the former member of this node, whose data is gone', { isLearner: own.isLearner });
      await slot.writeIntent({ ...self, memberId: own.id.toString(16) });
      await members.remove(own.id, { signal: slot.signal });
      own = undefined;
      listed = listed.filter(({ name }) => name !== self.nodeId);
    }
    await slot.writeIntent(self);
    own ??= await members.addLearner(self.peerUrl, { signal: slot.signal });
    await slot.writeIntent({ ...self, memberId: own.id.toString(16) });
    const named = listed.filter(({ name }) => name !== '' && name !== self.nodeId);
    const urls = named.map(({ name, peerUrls }) => [name, peerUrls[0] ?? ''] as const);
    return { memberId: own.id, members: Object.fromEntries([...urls, [self.nodeId, self.peerUrl]]) };
  });
}

/**
 * Promotes this learner to a voting member once it has the data of the leader. Retries while etcd reports
 * itself unhealthy after another change.
 */
export async function promoteOwnMember(ports: MembershipPorts, slot: Slot, self: OwnMember): Promise<void> {
  const { members } = ports;
  await retrying(ports, { what: 'this member of etcd to catch up', signal: slot.signal }, async () => {
    const own = findOwnMember(await members.list({ signal: slot.signal, timeoutMs: LIST_MS }), self);
    if (own === undefined)
      throw new ConsensusError('consensus-removed', `promoting ${self.nodeId}: not a member of etcd`);
    if (own.isLearner) await members.promote(own.id, { signal: slot.signal });
  });
  await slot.writeIntent(undefined);
}

/**
 * Refuses if the other members would have no quorum. A role change makes the same check before, but this check counts
 * the voting members that answer this node.
 * @throws ConsensusError `consensus-last-member`, `consensus-quorum`
 */
export function checkLeaveGuard(others: number, answering: number): void {
  const guard = leaveGuard({ controlPlanes: others, voters: others, healthy: answering });
  if (guard === 'last-control-plane')
    throw new ConsensusError('consensus-last-member', 'leaving etcd: this node is the last voting member');
  const needed = quorumOf(others);
  if (guard === 'quorum-loss')
    throw new ConsensusError(
      'consensus-quorum',
      `leaving etcd: ${answering} of the ${others} other voting members answer, ${needed} are needed`,
      { details: { answering, needed } },
    );
}

/** Removes this node from the members. Does nothing if this node is not a member. */
export async function removeOwnMember(
  ports: MembershipPorts,
  slot: Slot,
  self: OwnMember,
  countAnswering: (others: readonly Member[]) => Promise<number>,
): Promise<void> {
  const { members } = ports;
  await retrying(ports, { what: 'etcd to remove this member', signal: slot.signal }, async () => {
    const listed = await members.list({ signal: slot.signal, timeoutMs: LIST_MS });
    const own = listed.find(({ name }) => name === self.nodeId);
    if (own === undefined) return;
    const others = listed.filter(({ id, isLearner }) => !isLearner && id !== own.id);
    if (!own.isLearner) checkLeaveGuard(others.length, await countAnswering(others));
    await members.remove(own.id, { signal: slot.signal });
  });
}

/**
 * Retries while etcd refuses temporarily, or if etcd may not have received the request. Each attempt reads
 * the members first.
 */
async function retrying<T>(
  { clock, onProgress: say }: MembershipPorts,
  wait: { readonly what: string; readonly signal: AbortSignal },
  attempt: () => Promise<T>,
): Promise<T> {
  const endMs = clock.monotonicMs() + CHANGE_MS;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (isAbort(error, wait.signal)) throw error;
      if (!(error instanceof EtcdError && RETRYABLE.includes(error.code))) throw error;
      say(wait.what, error);
      if (clock.monotonicMs() > endMs)
        throw new ConsensusError('consensus-not-ready', `waiting for ${wait.what}`, { cause: error });
    }
    await clock.sleep(POLL_MS, wait.signal);
  }
}

const RETRYABLE: readonly string[] = [
  'etcd-unavailable',
  'etcd-member-limit',
  'etcd-member-not-ready',
  'etcd-exists',
  'etcd-member-unknown',
] satisfies readonly EtcdError['code'][];
