import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import { Backoff, type Clock } from '../../internal/clock/index.ts';
import type { PinnedCluster } from '../../internal/config/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { isControlPlane, type Role } from '../../internal/role/index.ts';
import { RemoteError } from '../../internal/rpc/index.ts';
import type { Waiting } from '../../joinservice/joinproto/gen/join_pb.js';
import { discover, type EndpointSource } from './discovery.ts';
import { JoinClientError } from './errors.ts';
import { JoinFacts } from './join-facts.ts';
import { recordNameLookup, type ResolveName } from './name-lookup.ts';
import { openFirst } from './open-first.ts';
import { JoinSession, type Introduction, type SessionPorts } from './join-session.ts';
import type { JoinProblem, JoinStatus } from './join-status.ts';
import { openTicket, type OpenedTicket } from './open-ticket.ts';
import type { TicketQuestion, TicketKeyRing } from './ticket-keys.ts';
import type { ClusterTrust } from './verify-cluster.ts';

/** Interval between searches for endpoints while no endpoint is known. */
const IDLE_MS = 5_000;
/** A failure after a session of at least this length starts with the shortest pause again. */
const SETTLED_MS = 10_000;
const PAUSES = { firstMs: 500, factor: 1.6, longestMs: 60_000 };
/** The longest pause that a cluster can ask for. */
const LONGEST_HINT_MS = 10 * PAUSES.longestMs;

/** The admission of this machine to a cluster; it is on disk before the node lock is taken. */
export interface JoinRecord {
  readonly clusterId: string;
  /** The node id of this machine, which also identifies its join: each machine key has one join. */
  readonly joinId: string;
  /** Endpoints to try first after a crash: the one that admitted the machine. */
  readonly endpoints: readonly string[];
}

/** The cluster has admitted this machine; no ticket was issued yet. */
export interface GrantedAdmission extends Disposable {
  readonly record: JoinRecord;
  /** Requests the ticket once; called after the node lock was taken. */
  readonly requestTicket: (signal: AbortSignal) => Promise<OpenedTicket>;
}

/** Ports (injected dependencies) of the join client. */
export interface JoinClientPorts extends SessionPorts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly lookUp: ResolveName;
  /** The keys that tickets are requested for. The kubelet keys are the same at each call. */
  readonly keys: () => Promise<TicketKeyRing>;
  /** Checks the requirements of a member before the machine requests admission. @throws PreflightError */
  readonly checkMachine: () => Promise<void>;
}

/** The identity of this machine, and the clusters that it trusts. */
export interface JoinClientOptions {
  readonly sources: readonly EndpointSource[];
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** The one cluster of these owners that the machine was provisioned for, if its provisioning names one. */
  readonly pinned: PinnedCluster | undefined;
  /** Proxies in the environment of the agent, which `cluster explain` shows. */
  readonly proxies: readonly string[];
  readonly nodeId: string;
  readonly pubKeyDer: Uint8Array;
  /** The current description of this machine. */
  readonly introduction: () => Omit<Introduction, 'facts'>;
  readonly ownAddress: () => string;
  readonly keyNames: readonly string[];
  /** Names of shared keys that not every cluster has. */
  readonly optionalKeyNames: readonly string[];
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
  /** Ends the current attempt or pause. */
  #wake: () => void = () => undefined;
  /** The pause that the join service last asked for. */
  #retryAfterMs = 0;

  constructor(ports: JoinClientPorts, options: JoinClientOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#facts = new JoinFacts(() => ports.clock.nowMs());
    this.#status.set({ kind: 'idle' });
  }

  get status(): Readable<JoinStatus> {
    return this.#status;
  }

  /** Retries now, because there are new endpoints or the cause of a refusal was removed. */
  retryNow(): void {
    this.#wake();
  }

  /** Requests admission until a cluster of the owner grants it, which may take days. */
  async admit(signal: AbortSignal): Promise<GrantedAdmission> {
    for (;;) {
      try {
        return await this.#ask(
          { boundTo: undefined, known: [], relays: [], servers: 'any' },
          (session, roundSignal) => this.#admitOver(session, roundSignal),
          signal,
        );
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof FinalRefusal)) throw error;
        const { endpoint, cause } = error;
        this.#ports.log.error('cluster refuses this machine permanently', { endpoint, error: cause });
        this.#status.set({ kind: 'refused', endpoint, problem: this.#problem(cause) });
        await this.#untilRetry(signal);
      }
    }
  }

  /**
   * Requests the ticket of an admission. May be repeated, for example when the response with the ticket was
   * lost.
   */
  async requestTicket(record: JoinRecord, signal: AbortSignal): Promise<OpenedTicket> {
    return this.#ask(
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
    return this.#ask(
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
    const trust = this.#trust(admitted.cluster.clusterId, 'any');
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

  /**
   * Repeats attempts until one succeeds.
   * @throws FinalRefusal
   */
  async #ask<T>(
    target: Target,
    work: (session: JoinSession, signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const backoff = new Backoff({ ...PAUSES, random: this.#ports.random });
    const sinceMs = this.#ports.clock.nowMs();
    for (let lastError: JoinProblem | undefined; ;) {
      using round = childSignal(signal);
      this.#wake = () => round.abort();
      const at = { endpoint: '', openedMs: Infinity, asked: [] as readonly string[] };
      try {
        const endpoints = await this.#endpoints(target, round.signal);
        if (endpoints.length > 0) {
          at.asked = endpoints;
          this.#status.set({ kind: 'asking', endpoints, sinceMs, lastError });
          // A bound machine is not checked again, because its own programs already use the ports that the
          // check would test.
          if (target.boundTo === undefined) await this.#ports.checkMachine();
          const session = await this.#open(endpoints, target, round.signal);
          at.endpoint = session.endpoint;
          at.openedMs = this.#ports.clock.monotonicMs();
          return await work(session, round.signal);
        }
        if (this.#isNews('idle')) this.#status.set({ kind: 'idle' });
        await this.#ports.clock.sleep(IDLE_MS, round.signal);
      } catch (error) {
        signal.throwIfAborted();
        if (round.signal.aborted) continue;
        lastError = this.#problem(error);
        const { log, clock } = this.#ports;
        if (at.asked.length > 0)
          this.#status.set({ kind: 'asking', endpoints: at.asked, sinceMs, lastError });
        if (at.endpoint !== '' && error instanceof RemoteError && !error.retryable)
          throw new FinalRefusal(at.endpoint, error);
        if (clock.monotonicMs() - at.openedMs > SETTLED_MS) backoff.reset();
        const pauseMs = backoff.nextMs(this.#retryAfterMs);
        this.#retryAfterMs = 0;
        log.warn('join attempt failed, retrying', { error, pauseMs });
        await clock.sleep(pauseMs, round.signal).catch(() => signal.throwIfAborted());
      }
    }
  }

  async #endpoints({ known, relays }: Target, signal: AbortSignal): Promise<readonly string[]> {
    const { clock, log, random } = this.#ports;
    const { endpoints, problems } = await discover(this.#options.sources, clock, signal);
    for (const problem of problems) log.warn('endpoint source not usable', problem);
    const first = Math.floor(random() * endpoints.length);
    // Starts at a random endpoint, so that many machines do not all use the same node.
    return [...new Set([...known, ...endpoints.slice(first), ...endpoints.slice(0, first), ...relays])];
  }

  #open(endpoints: readonly string[], target: Target, signal: AbortSignal): Promise<JoinSession> {
    const { clock, lookUp } = this.#ports;
    const facts = this.#facts;
    return openFirst(
      endpoints,
      async (endpoint, attempt) => {
        const trust = this.#trust(target.boundTo, serverAt(endpoint, target));
        const [session] = await Promise.all([
          JoinSession.open(endpoint, this.#ports, { trust, signal: attempt }),
          recordNameLookup(endpoint, { facts, lookUp, clock, signal: attempt }),
        ]);
        facts.recordReached(endpoint, session.cluster);
        return session;
      },
      { clock, signal, onFailure: (endpoint, error) => facts.recordFailure(endpoint, error) },
    );
  }

  #trust(boundTo: string | undefined, server: ClusterTrust['server']): ClusterTrust {
    const { ownerKeys, pinned } = this.#options;
    return { ownerKeys, pinned, boundTo, server };
  }

  #waits(session: JoinSession, waiting: Waiting): void {
    const { code, message, fingerprint, joinId, position } = waiting;
    const { clusterId, clusterName } = session.cluster;
    this.#retryAfterMs = Math.min(Number(waiting.retryAfterMs), LONGEST_HINT_MS);
    if (this.#isNews('waiting'))
      this.#ports.log.info('waiting for admission', { clusterId, code, message, fingerprint });
    this.#status.set({
      ...{ kind: 'waiting', endpoint: session.endpoint, clusterId, clusterName, joinId },
      ...{ code, message, fingerprint, position },
      sinceMs: Number(waiting.sinceMs),
      estimateMs: Number(waiting.estimateMs),
    });
  }

  #isNews(kind: JoinStatus['kind']): boolean {
    const now = this.#status.peek();
    return !now.set || now.value.kind !== kind;
  }

  #untilRetry(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return Promise.race([promise, untilAborted(signal)]);
  }

  #problem(error: unknown): JoinProblem {
    const { code = 'internal', fix = '', exit = 'internal' } = findCoded(error) ?? {};
    return { code, message: describeError(error), fix, exit, timeMs: this.#ports.clock.nowMs() };
  }
}

/** The cluster and the nodes that a request may go to. */
interface Target {
  /** The cluster that this machine is bound to, if any. */
  readonly boundTo: string | undefined;
  readonly known: readonly string[];
  readonly relays: readonly string[];
  /**
   * For a member: the node that must respond at each endpoint; at any other endpoint, any control plane may
   * respond.
   */
  readonly servers: 'any' | readonly { readonly endpoint: string; readonly nodeId: string }[];
}

function serverAt(endpoint: string, { servers }: Target): ClusterTrust['server'] {
  if (servers === 'any') return servers;
  return { nodeIds: servers.filter((each) => each.endpoint === endpoint).map(({ nodeId }) => nodeId) };
}

/** A permanent refusal, with the endpoint that sent it. */
class FinalRefusal extends Error {
  readonly endpoint: string;

  constructor(endpoint: string, cause: RemoteError) {
    super(`request to ${endpoint} refused`, { cause });
    this.endpoint = endpoint;
  }
}
