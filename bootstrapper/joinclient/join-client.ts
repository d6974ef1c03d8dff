import { EventValue, type Readable } from '../../internal/event/index.ts';
import { isControlPlane, type Role } from '../../internal/role/index.ts';
import { RemoteError } from '../../internal/rpc/index.ts';
import type { Waiting } from '../../joinservice/joinproto/gen/join_pb.js';
import { JoinClientError } from './errors.ts';
import { FinalRefusal, JoinAttempts } from './join-attempts.ts';
import type { JoinClientOptions, JoinClientPorts } from './join-client-options.ts';
import { JoinFacts } from './join-facts.ts';
import { JoinSession } from './join-session.ts';
import type { JoinStatus } from './join-status.ts';
import { openTicket, type OpenedTicket } from './open-ticket.ts';
import type { TicketQuestion } from './ticket-keys.ts';

/** The admission of this machine to a cluster; it is on disk before the node lock is taken. */
export interface JoinRecord {
  readonly clusterId: string;
  /** The node id of this machine, which also identifies its join: each machine key has one join. */
  readonly joinId: string;
  /** Endpoints to try first after a crash: the endpoint that admitted the machine. */
  readonly endpoints: readonly string[];
}

/** The cluster has admitted this machine; no ticket was issued yet. */
export interface GrantedAdmission extends Disposable {
  readonly record: JoinRecord;
  /** Requests the ticket once; called after the node lock was taken. */
  readonly requestTicket: (signal: AbortSignal) => Promise<OpenedTicket>;
}

/**
 * The machine's side of a join. It retries without end, because endpoints may become reachable and operators
 * may change a policy. Only a permanent refusal by a cluster that has proved its identity stops it.
 */
export class JoinClient {
  readonly #ports: JoinClientPorts;
  readonly #options: JoinClientOptions;
  readonly #status = new EventValue<JoinStatus>();
  readonly #facts: JoinFacts;
  readonly #attempts: JoinAttempts;

  constructor(ports: JoinClientPorts, options: JoinClientOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#facts = new JoinFacts(() => ports.clock.nowMs());
    this.#status.set({ kind: 'idle' });
    this.#attempts = new JoinAttempts(ports, options, { status: this.#status, facts: this.#facts });
  }

  get status(): Readable<JoinStatus> {
    return this.#status;
  }

  /** Retries now, because there are new endpoints or the cause of a refusal was removed. */
  retryNow(): void {
    this.#attempts.retryNow();
  }

  /** Requests admission until a cluster of the owner grants it, which may take days. */
  async admit(signal: AbortSignal): Promise<GrantedAdmission> {
    for (;;) {
      try {
        return await this.#attempts.run(
          { boundTo: undefined, known: [], relays: [], servers: 'any' },
          (session, roundSignal) => this.#admitOver(session, roundSignal),
          signal,
        );
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof FinalRefusal)) throw error;
        const { endpoint, cause } = error;
        this.#ports.log.error('cluster refuses this machine permanently', { endpoint, error: cause });
        this.#status.set({ kind: 'refused', endpoint, problem: this.#attempts.problemOf(cause) });
        await this.#attempts.untilRetry(signal);
      }
    }
  }

  /**
   * Requests the ticket of an admission. May be repeated, for example when the response with the ticket was
   * lost.
   */
  async requestTicket(record: JoinRecord, signal: AbortSignal): Promise<OpenedTicket> {
    return this.#attempts.run(
      { boundTo: record.clusterId, known: record.endpoints, relays: [], servers: 'any' },
      async (session, roundSignal) => {
        using granted = await this.#admitOver(session, roundSignal);
        return await this.#commitOver(session, granted.roles, roundSignal);
      },
      signal,
    );
  }

  /** Requests new certificates for a member, with fresh evidence. */
  async rejoin(
    member: {
      readonly clusterId: string;
      /** The control planes that the cluster has listed. */
      readonly controlPlanes: readonly { readonly endpoint: string; readonly nodeId: string }[];
      /** Workers that forward connections to join services. These are tried last. */
      readonly relays: readonly string[];
      /** The roles that this member knows. */
      readonly roles: readonly string[];
      /** The member's certificate, even if it has expired. */
      readonly nodeCertPem: string;
    },
    signal: AbortSignal,
  ): Promise<OpenedTicket> {
    const { clusterId, controlPlanes, relays, roles, nodeCertPem } = member;
    const known = controlPlanes.map(({ endpoint }) => endpoint);
    return this.#attempts.run(
      { boundTo: clusterId, known, relays, servers: controlPlanes },
      async (session, roundSignal) => {
        using open = session;
        return await this.#requestOver(open, { roles, nodeCertPem, usesSettings: false }, roundSignal);
      },
      signal,
    );
  }

  /** Publishes in the status that the membership is on disk. */
  reportJoined(membership: { readonly clusterId: string; readonly nodeName: string }): void {
    const { clusterId, nodeName } = membership;
    this.#status.set({ kind: 'joined', clusterId, nodeName });
  }

  /** Requests admission over a session, and keeps the session open for the ticket request. */
  async #admitOver(
    session: JoinSession,
    signal: AbortSignal,
  ): Promise<GrantedAdmission & { readonly roles: readonly string[] }> {
    try {
      this.#facts.recordProxies(this.#options.proxies);
      const introduction = { ...this.#options.introduction(), facts: this.#facts.list() };
      const admitted = await session.requestAdmission(
        introduction,
        (waiting) => this.#waits(session, waiting),
        signal,
      );
      const { clusterId } = session.cluster;
      const { nodeName, roles, joinId } = admitted;
      if (joinId !== this.#options.nodeId)
        throw new JoinClientError(
          'joinclient-protocol',
          `${session.endpoint} admitted this machine as ${joinId.slice(0, 64)}`,
        );
      this.#ports.log.info('admitted to the cluster', { clusterId, nodeName, roles });
      this.#status.set({ kind: 'admitted', clusterId, nodeName, roles });
      return {
        record: { clusterId, joinId, endpoints: [session.endpoint] },
        roles,
        requestTicket: (commitSignal) => this.#commitAfterLock(session, roles, commitSignal),
        [Symbol.dispose]: () => session[Symbol.dispose](),
      };
    } catch (error) {
      session[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Opens a new session for the ticket request. The evidence of the admission's session predates the node lock,
   * and tickets are issued only to a locked machine.
   */
  async #commitAfterLock(
    admitted: JoinSession,
    roles: readonly string[],
    signal: AbortSignal,
  ): Promise<OpenedTicket> {
    admitted[Symbol.dispose]();
    const trust = await this.#attempts.trust(admitted.cluster.clusterId, 'any');
    using session = await JoinSession.open(admitted.endpoint, this.#ports, { trust, signal });
    return await this.#commitOver(session, roles, signal);
  }

  async #commitOver(
    session: JoinSession,
    roles: readonly string[],
    signal: AbortSignal,
  ): Promise<OpenedTicket> {
    const member = { roles, nodeCertPem: '', usesSettings: true };
    try {
      return await this.#requestOver(session, { ...member, joinId: this.#options.nodeId }, signal);
    } catch (error) {
      // The ticket was issued before. Either this machine did not receive it, or it lost the ticket.
      if (error instanceof RemoteError && error.code === 'join-ticket-used')
        return this.#requestOver(session, member, signal);
      throw error;
    }
  }

  /** Requests the ticket of a join (`joinId`), or a new ticket for a member. */
  async #requestOver(
    open: JoinSession,
    member: Pick<TicketQuestion, 'roles' | 'nodeCertPem'> & {
      readonly joinId?: string;
      readonly usesSettings: boolean;
    },
    signal: AbortSignal,
  ): Promise<OpenedTicket> {
    const { cluster, session } = open;
    const { joinId, usesSettings, ...known } = member;
    const { evidence, clock } = this.#ports;
    const keys = await this.#ports.keys();
    // The time by the cluster's clock; the difference between the clocks was checked before the admission.
    const timeMs = clock.nowMs() - cluster.clockOffsetMs;
    const address = this.#options.ownAddress();
    const question = { ...known, clusterId: cluster.clusterId, address, session, timeMs };
    const asked = await keys.createRequest(question, signal);
    const ticket = await open.issueTicket(joinId === undefined ? { address } : { joinId }, asked, signal);
    return openTicket(ticket, {
      ...{ ...this.#options, cluster, keys, session, usesSettings },
      wantsControlPlaneKeys: isControlPlane(known.roles as readonly Role[]),
      answerChallenge: (challenge, of) => evidence.answerChallenge(challenge, of, signal),
      nowMs: () => clock.nowMs(),
    });
  }

  #waits(session: JoinSession, waiting: Waiting): void {
    const { code, message, fingerprint, joinId, position } = waiting;
    const { clusterId, clusterName } = session.cluster;
    this.#attempts.postpone(Number(waiting.retryAfterMs));
    if (this.#attempts.isNews('waiting'))
      this.#ports.log.info('waiting for admission', { clusterId, code, message, fingerprint });
    this.#status.set({
      ...{ kind: 'waiting', endpoint: session.endpoint, clusterId, clusterName, joinId },
      ...{ code, message, fingerprint, position },
      sinceMs: Number(waiting.sinceMs),
      estimateMs: Number(waiting.estimateMs),
    });
  }
}
