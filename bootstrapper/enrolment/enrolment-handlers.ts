import { childSignal } from '../../internal/cleanup/index.ts';
import { type NodeMembership, settingsFromSpec } from '../roleserve/index.ts';
import { type Readable, when } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { parseRoles } from '../../internal/role/index.ts';
import { type Membership, MembershipError } from '../membership/index.ts';
import type { EnrolmentHandlers } from './enrolment.ts';
import type { InitJob, InitRecord } from '../initserver/index.ts';
import type { GrantedAdmission, JoinClient, JoinRecord, OpenedTicket } from '../joinclient/index.ts';
import { type NodeLock, NodeLockError } from '../nodelock/index.ts';
import { AGENT_PATHS, type NodeState } from '../nodestate/index.ts';
import { installTicket } from '../credentials/index.ts';
import { findResumePoint } from './resume-point.ts';

export interface EnrolmentPorts {
  readonly files: FilePort;
  readonly lock: NodeLock;
  readonly job: InitJob;
  readonly state: NodeState;
  /** Publishes what this node is, once it is on disk. */
  readonly node: NodeMembership;
  readonly clusterMembership: Readable<Membership | undefined>;
  readonly joinClient: Pick<JoinClient, 'admit' | 'requestTicket' | 'reportJoined'>;
  /** A member whose certificates ran out while it was off gets new ones first; durable when it resolves. */
  readonly ensureValidCertificates: (membership: Membership, signal: AbortSignal) => Promise<Membership>;
  readonly ownAddress: () => string;
  readonly log: Logger;
}

/**
 * What each state of the enrolment does on this machine. A join's way on after a crash, by what is on the disk:
 *
 * | admission | lock | membership | way on                                                                       |
 * |-----------|------|------------|------------------------------------------------------------------------------|
 * | any       | –    | –          | New: asks again; whoever admits now counts                                   |
 * | there     | join | –          | Joining: the same key asks for the same ticket; what lies there is replaced  |
 * | –         | join | –          | refused: the lock alone does not say where to go on                          |
 * | any       | join | there      | Resuming                                                                     |
 */
export function createEnrolmentHandlers(ports: EnrolmentPorts): EnrolmentHandlers<Membership> {
  const { job, state, node, lock, joinClient } = ports;
  // The session that was admitted, for the ticket: kept in this life only.
  let granted: GrantedAdmission | undefined;
  return {
    New: async (signal) => {
      await job.restore();
      const wayOn = await findResumePoint(ports);
      if (wayOn === 'resuming') return { to: 'Resuming' };
      if (wayOn === 'joining') return { to: 'Joining' };
      granted = await admittedOrInit(ports, signal);
      if (granted === undefined) ports.log.info('an init has this machine; no cluster is asked to let it in');
      return { to: granted === undefined ? 'CreatingCluster' : 'Joining' };
    },
    CreatingCluster: async (signal) => {
      const record = await acceptedOf(job.accepted, signal);
      node.creating(settingsFromSpec(record.spec), { initId: record.initId, spec: record.spec });
      const membership = await when(ports.clusterMembership, (value) => value !== undefined, signal);
      if (membership === undefined) throw new TypeError('a membership that is none');
      return { to: 'Running', membership };
    },
    Joining: async (signal) => {
      using session = granted;
      granted = undefined;
      const record = session?.record ?? (await state.join.load());
      if (record === undefined) throw new TypeError('joining without an admission');
      // Before anything is shown of the machine: the register says what the lock says.
      await lock.acquire(claimOf(record));
      const ticket = await takeTicket(ports, { session, record }, signal);
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
        throw new MembershipError('membership-damaged', `resuming: ${path} is gone`, {
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

async function acceptedOf(accepted: Readable<InitRecord>, signal: AbortSignal): Promise<InitRecord> {
  return when(accepted, () => true, signal);
}

function claimOf({ clusterId, joinId }: JoinRecord): { clusterId: string; by: 'join'; id: string } {
  return { clusterId, by: 'join', id: joinId };
}

/**
 * An owner's init or a cluster's admission, whichever takes the lock. The other one is called off and has ended when this
 * resolves. undefined: it was the init.
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
    // Whoever lost the lock ended without it: then the other one has it, or is about to say so.
    return winner ?? (await accepted);
  } finally {
    race.abort(new Error('the machine is spoken for'));
    await Promise.allSettled([accepted, admitted]);
  }
}

/** Admission on disk, then the lock. undefined: an init was faster. */
async function lockFor(
  { lock, state, files, job }: EnrolmentPorts,
  granted: GrantedAdmission,
): Promise<GrantedAdmission | undefined> {
  try {
    await state.join.save(granted.record);
    await lock.acquire(claimOf(granted.record));
    await job.deleteRequest(); // of an init that did not come as far as the lock
    return granted;
  } catch (error) {
    granted[Symbol.dispose]();
    if (!(error instanceof NodeLockError) || error.code !== 'nodelock-held') throw error;
    await files.remove(AGENT_PATHS.join);
    return undefined;
  }
}

/** Over the session that was admitted, if it is still there; else asked for anew. Nothing is minted twice. */
async function takeTicket(
  { joinClient, log }: EnrolmentPorts,
  at: { readonly session: GrantedAdmission | undefined; readonly record: JoinRecord },
  signal: AbortSignal,
): Promise<OpenedTicket> {
  if (at.session !== undefined) {
    try {
      return await at.session.requestTicket(signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn('the ticket did not come over the session that was admitted; asking anew', { error });
    }
  }
  return joinClient.requestTicket(at.record, signal);
}
