import { childSignal } from '../../internal/cleanup/index.ts';
import { type NodeMembership, settingsFromSpec } from '../roleserve/index.ts';
import { type Readable, when } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { parseRoles } from '../../internal/role/index.ts';
import { type Membership, MembershipError } from '../membership/index.ts';
import type { EnrolmentHandlers } from './enrolment.ts';
import type { InitJob, InitRestore } from '../initserver/index.ts';
import type { GrantedAdmission, JoinClient, JoinRecord, OpenedTicket } from '../joinclient/index.ts';
import { type NodeLock, NodeLockError } from '../nodelock/index.ts';
import { AGENT_PATHS, type NodeState } from '../nodestate/index.ts';
import { installControlPlaneKeys, installDiskSharesKey, installTicket } from '../credentials/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { findResumePoint } from './resume-point.ts';

/** Ports (injected dependencies) of the enrolment handlers. */
export interface EnrolmentPorts extends Pick<SystemPorts, 'files' | 'log'> {
  readonly lock: NodeLock;
  readonly job: InitJob;
  readonly state: NodeState;
  /** Publishes this node's membership and roles, once they are on disk. */
  readonly node: NodeMembership;
  readonly clusterMembership: Readable<Membership | undefined>;
  readonly joinClient: Pick<JoinClient, 'admit' | 'requestTicket' | 'reportJoined'>;
  /**
   * Renews the certificates of a member, if they expired while the machine was off. The new ones are on disk
   * when the promise resolves.
   */
  readonly ensureValidCertificates: (membership: Membership, signal: AbortSignal) => Promise<Membership>;
  readonly ownAddress: () => string;
}

/**
 * The work of each state of the enrolment on this machine. The files on disk decide how an interrupted join resumes:
 *
 * | admission | lock | membership | resume point                                                                  |
 * |-----------|------|------------|-------------------------------------------------------------------------------|
 * | any       | –    | –          | New: requests admission again                                                 |
 * | exists    | join | –          | Joining: requests the same ticket with the same key, and replaces all files   |
 * | –         | join | –          | fails: the node lock does not name the cluster's endpoints                    |
 * | any       | join | exists     | Resuming                                                                      |
 */
export function createEnrolmentHandlers(ports: EnrolmentPorts): EnrolmentHandlers<Membership> {
  const { job, state, node, lock, joinClient } = ports;
  // The session over which the cluster admitted this machine, for the ticket request. It is lost when the
  // agent restarts.
  let granted: GrantedAdmission | undefined;
  return {
    New: async (signal) => {
      await job.restore();
      const resumePoint = await findResumePoint(ports);
      if (resumePoint === 'resuming') return { to: 'Resuming' };
      if (resumePoint === 'joining') return { to: 'Joining' };
      granted = await admittedOrInit(ports, signal);
      if (granted === undefined) ports.log.info('init accepted, no longer requesting admission to a cluster');
      return { to: granted === undefined ? 'CreatingCluster' : 'Joining' };
    },
    CreatingCluster: async (signal) => {
      const record = await when(job.accepted, () => true, signal);
      // The restored keys are written before the workers create keys, because the workers keep existing keys.
      const keys = record.spec.restore && restoredKeys(record.spec.restore);
      if (keys !== undefined) await installControlPlaneKeys(ports.files, keys);
      // A repeated attempt after the acknowledgement finds the secret on the disk, and no longer in the request. That of a backup counts,
      // because the disks of its workers open with it.
      const { clusterUnlockKeyHex: secret } = record.spec;
      const error = await installDiskSharesKey(ports.files, secret === '' ? undefined : new Secret(secret));
      if (error !== undefined) ports.log.error('secret for disk shares in the init not stored', { error });
      node.creating(settingsFromSpec(record.spec), { initId: record.initId, spec: record.spec });
      const membership = await when(ports.clusterMembership, (value) => value !== undefined, signal);
      if (membership === undefined) throw new TypeError('called before this node is a member');
      return { to: 'Running', membership };
    },
    Joining: async (signal) => {
      using session = granted;
      granted = undefined;
      const record = session?.record ?? (await state.join.load());
      if (record === undefined) throw new TypeError('called before this machine was admitted');
      // This also extends the lock PCR, before the machine creates any evidence.
      await lock.acquire(claimOf(record));
      const ticket = await requestTicket(ports, { session, record }, signal);
      const membership = await installTicket(ports, ticket, ports.ownAddress());
      joinClient.reportJoined(membership);
      node.configured(ticket.settings);
      node.entered({ membership, roles: new Set(ticket.roles) });
      return { to: 'Running', membership };
    },
    Resuming: async (signal) => {
      const [known, roles, settings] = await Promise.all([
        state.membership.load(),
        state.roles.load(),
        state.settings.load(),
      ]);
      if (known === undefined || roles === undefined || settings === undefined) {
        const path = roles === undefined ? AGENT_PATHS.roles : AGENT_PATHS.settings;
        throw new MembershipError('membership-damaged', `resuming: ${path} not found`, {
          details: { path },
        });
      }
      node.configured(settings);
      const membership = await ports.ensureValidCertificates(known, signal);
      node.entered({ membership, roles: new Set(parseRoles(roles)) });
      return { to: 'Running', membership };
    },
  };
}

/**
 * The shared keys of the cluster that is restored, from the owner's init request. The request contains no keys any more
 * once the cluster exists.
 */
function restoredKeys({ sharedKeys }: InitRestore): ReadonlyMap<string, Secret<string>> | undefined {
  const keys = Object.entries(sharedKeys).map(([name, text]) => [name, new Secret(text)] as const);
  return keys.length === 0 ? undefined : new Map(keys);
}

function claimOf({ clusterId, joinId }: JoinRecord): { clusterId: string; by: 'join'; id: string } {
  return { clusterId, by: 'join', id: joinId };
}

/**
 * Waits for an owner's init or for the admission to a cluster, whichever takes the node lock first. The other
 * one is canceled and has ended when the promise resolves. undefined: the init was first.
 */
async function admittedOrInit(
  ports: EnrolmentPorts,
  signal: AbortSignal,
): Promise<GrantedAdmission | undefined> {
  const { job, joinClient } = ports;
  using race = childSignal(signal);
  const accepted = when(job.accepted, () => true, race.signal).then(() => undefined);
  const admitted = joinClient.admit(race.signal).then((granted) => lockFor(ports, granted));
  try {
    const winner = await Promise.race([accepted, admitted]);
    // If this machine was not admitted, an init has taken the node lock first; `accepted` then resolves soon.
    return winner ?? (await accepted);
  } finally {
    race.abort(new Error('this machine is locked to a cluster'));
    await Promise.allSettled([accepted, admitted]);
  }
}

/** Saves the admission, then takes the node lock. Resolves to undefined if an init was faster. */
async function lockFor(
  { lock, state, files, job }: EnrolmentPorts,
  granted: GrantedAdmission,
): Promise<GrantedAdmission | undefined> {
  try {
    await state.join.save(granted.record);
    await lock.acquire(claimOf(granted.record));
    await job.deleteRequest(); // deletes the request of the init that did not get the node lock
    return granted;
  } catch (error) {
    granted[Symbol.dispose]();
    if (!(error instanceof NodeLockError) || error.code !== 'nodelock-held') throw error;
    await files.remove(AGENT_PATHS.join);
    return undefined;
  }
}

/**
 * Requests the ticket in the session of the admission if that still exists, otherwise in a new session. A ticket is
 * issued only once.
 */
async function requestTicket(
  { joinClient, log }: EnrolmentPorts,
  at: { readonly session: GrantedAdmission | undefined; readonly record: JoinRecord },
  signal: AbortSignal,
): Promise<OpenedTicket> {
  if (at.session !== undefined) {
    try {
      return await at.session.requestTicket(signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn('session ended before the ticket arrived, retrying in a new session', { error });
    }
  }
  return joinClient.requestTicket(at.record, signal);
}
