import type { Challenge } from '../../internal/attestation/enrolment/index.ts';
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

/** How often sources are asked while none knows an endpoint. */
const IDLE_MS = 5_000;
/** After a session that lasted this long, a failure is a new one. */
const SETTLED_MS = 10_000;
const PAUSES = { firstMs: 500, factor: 1.6, longestMs: 60_000 };
/** The longest pause that a cluster can ask for. */
const LONGEST_HINT_MS = 10 * PAUSES.longestMs;

/** What an admission binds this machine to: on disk before the lock is taken. */
export interface JoinRecord {
  readonly clusterId: string;
  /** This machine's node id: a join is one per key. */
  readonly joinId: string;
  /** Where it was admitted, first; for the way back after a crash. */
  readonly endpoints: readonly string[];
}

/** The cluster lets this machine in; nothing was minted yet. */
export interface GrantedAdmission extends Disposable {
  readonly record: JoinRecord;
  /** The commit over the session that was admitted. Once, and only after the lock. */
  readonly requestTicket: (signal: AbortSignal) => Promise<OpenedTicket>;
}

export interface JoinClientPorts extends SessionPorts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly lookUp: ResolveName;
  /** Keys to ask with: the same kubelet keys each time. */
  readonly keys: () => Promise<TicketKeyRing>;
  /** Whether this machine is fit to be a member, before anybody is asked to let it in; rejects with what it lacks. */
  readonly checkMachine: () => Promise<void>;
}

export interface JoinClientOptions {
  readonly sources: readonly EndpointSource[];
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** Of those that these owners have, the one that it is for. */
  readonly pinned: PinnedCluster | undefined;
  /** What its environment names for a proxy, for the trace. */
  readonly proxies: readonly string[];
  readonly nodeId: string;
  readonly pubKeyDer: Uint8Array;
  /** What this machine says of itself, at the time it says it. */
  readonly introduction: () => Omit<Introduction, 'facts'>;
  readonly ownAddress: () => string;
  readonly keyNames: readonly string[];
  /** Of those that are not there in every cluster. */
  readonly optionalKeyNames: readonly string[];
}

/**
 * The machine's side of joining. It asks for ever: what cannot be reached today may be there tomorrow, and an operator may
 * change a policy. Only an answer of a cluster that has proved itself, and that says it will not change, ends the asking.
 */
export class JoinClient {
  readonly #ports: JoinClientPorts;
  readonly #options: JoinClientOptions;
  readonly #status = new EventValue<JoinStatus>();
  readonly #facts: JoinFacts;
  /** Ends the round or the pause under way: somebody knows better. */
  #hurry: () => void = () => undefined;
  /** What the other end asked for when it last let this machine wait. */
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

  /** There are new endpoints, or the cause of a refusal has been removed: ask again now. */
  retryNow(): void {
    this.#hurry();
  }

  /** Until a cluster of the owner lets this machine in; days, if need be. */
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
        const { endpoint, cause } = refusalIn(error);
        this.#ports.log.error('the cluster refuses this machine for good', { endpoint, error: cause });
        this.#status.set({ kind: 'refused', endpoint, problem: this.#problem(cause) });
        await this.#hurried(signal);
      }
    }
  }

  /** The ticket of an admission that this machine is bound to, also when it was minted and its answer was lost. */
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

  /** New certificates for a member, with fresh evidence. */
  async rejoin(
    member: {
      readonly clusterId: string;
      /** Whom its cluster has told it of. */
      readonly controlPlanes: readonly { readonly endpoint: string; readonly nodeId: string }[];
      /** Workers that pass connections on to some join service: asked last. */
      readonly relays: readonly string[];
      /** As this member knows them. */
      readonly roles: readonly string[];
      /** Its certificate, whatever its dates. */
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
        return await this.#rejoinOver(open, { roles, nodeCertPem }, roundSignal);
      },
      signal,
    );
  }

  /** Tells those who follow the status that the membership is on disk. */
  reportJoined(membership: { readonly clusterId: string; readonly nodeName: string }): void {
    const { clusterId, nodeName } = membership;
    this.#status.set({ kind: 'joined', clusterId, nodeName });
  }

  /** The session stays open for the commit, unless somebody else's lock comes first. */
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
          `admitted at ${session.endpoint} as ${joinId.slice(0, 64)}`,
        );
      this.#ports.log.info('the cluster lets this machine in', { clusterId, nodeName, roles });
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

  /** The admitted session's evidence is from before the lock; a ticket is given to a machine that shows it. */
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
    const keys = await this.#ports.keys();
    try {
      const asked = await keys.createRequest(this.#question(session, { roles, nodeCertPem: '' }), signal);
      const ticket = await session.issueJoinTicket(this.#options.nodeId, asked, signal);
      return await openTicket(ticket, this.#expected(session, { keys, roles, signal }));
    } catch (error) {
      // It was minted long ago, and this machine never got it, or lost it.
      if (error instanceof RemoteError && error.code === 'join-ticket-used')
        return this.#rejoinOver(session, { roles, nodeCertPem: '' }, signal);
      throw error;
    }
  }

  async #rejoinOver(
    session: JoinSession,
    member: Pick<TicketQuestion, 'roles' | 'nodeCertPem'>,
    signal: AbortSignal,
  ): Promise<OpenedTicket> {
    const keys = await this.#ports.keys();
    const asked = await keys.createRequest(this.#question(session, member), signal);
    const ticket = await session.issueRejoinTicket(asked.address, asked, signal);
    return openTicket(ticket, this.#expected(session, { keys, roles: member.roles, signal }));
  }

  #question(
    { cluster, session }: JoinSession,
    member: Pick<TicketQuestion, 'roles' | 'nodeCertPem'>,
  ): TicketQuestion {
    // By the cluster's clock: which of the two is right is decided before anybody is admitted.
    const timeMs = this.#ports.clock.nowMs() - cluster.clockOffsetMs;
    const address = this.#options.ownAddress();
    return { ...member, clusterId: cluster.clusterId, address, session, timeMs };
  }

  #expected(
    { cluster, session }: JoinSession,
    asked: {
      readonly keys: TicketKeyRing;
      readonly roles: readonly string[];
      readonly signal: AbortSignal;
    },
  ) {
    const { nodeId, pubKeyDer, keyNames, optionalKeyNames } = this.#options;
    const { evidence, clock } = this.#ports;
    const { keys, roles, signal } = asked;
    return {
      ...{ cluster, nodeId, pubKeyDer, keys, keyNames, optionalKeyNames, session },
      wantsControlPlaneKeys: isControlPlane(roles as readonly Role[]),
      answerChallenge: (challenge: Challenge, of: Uint8Array) =>
        evidence.answerChallenge(challenge, of, signal),
      nowMs: (): number => clock.nowMs(),
    };
  }

  /** Rounds until one succeeds. @throws FinalRefusal */
  async #ask<T>(
    target: Target,
    work: (session: JoinSession, signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const backoff = new Backoff({ ...PAUSES, random: this.#ports.random });
    const sinceMs = this.#ports.clock.nowMs();
    for (let lastError: JoinProblem | undefined; ;) {
      using round = childSignal(signal);
      this.#hurry = () => round.abort(new Hurried('somebody knows better'));
      const at = { endpoint: '', openedMs: Infinity, asked: [] as readonly string[] };
      try {
        const endpoints = await this.#endpoints(target, round.signal);
        if (endpoints.length > 0) {
          at.asked = endpoints;
          this.#status.set({ kind: 'asking', endpoints, sinceMs, lastError });
          // Who is bound to a cluster has changed already, and finds its own programs on its ports.
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
        log.warn('asking a cluster in vain; once more later', { error, pauseMs });
        await clock.sleep(pauseMs, round.signal).catch(() => signal.throwIfAborted());
      }
    }
  }

  async #endpoints({ known, relays }: Target, signal: AbortSignal): Promise<readonly string[]> {
    const { clock, log, random } = this.#ports;
    const { endpoints, problems } = await discover(this.#options.sources, clock, signal);
    for (const problem of problems) log.warn('a source of endpoints is of no use now', problem);
    const first = Math.floor(random() * endpoints.length);
    // Each machine begins elsewhere, so that many of them do not all ask the same node.
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
      { clock, signal, onFailure: ({ endpoint, error }) => facts.recordFailure(endpoint, error) },
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
      this.#ports.log.info('the cluster lets this machine wait', { clusterId, code, message, fingerprint });
    this.#status.set({
      kind: 'waiting',
      endpoint: session.endpoint,
      clusterId,
      clusterName,
      joinId,
      code,
      message,
      fingerprint,
      sinceMs: Number(waiting.sinceMs),
      position,
      estimateMs: Number(waiting.estimateMs),
    });
  }

  #isNews(kind: JoinStatus['kind']): boolean {
    const now = this.#status.peek();
    return !now.set || now.value.kind !== kind;
  }

  #hurried(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#hurry = resolve;
    return Promise.race([promise, untilAborted(signal)]);
  }

  #problem(error: unknown): JoinProblem {
    const { code = 'internal', fix = '', exit = 'internal' } = findCoded(error) ?? {};
    return { code, message: describeError(error), fix, exit, timeMs: this.#ports.clock.nowMs() };
  }
}

/** Whom to ask. */
interface Target {
  /** The cluster this machine is bound to; undefined as long as it is nobody's. */
  readonly boundTo: string | undefined;
  readonly known: readonly string[];
  readonly relays: readonly string[];
  /** For a member: who has to answer where, elsewhere some control plane. */
  readonly servers: 'any' | readonly { readonly endpoint: string; readonly nodeId: string }[];
}

function serverAt(endpoint: string, { servers }: Target): ClusterTrust['server'] {
  if (servers === 'any') return servers;
  return { nodeIds: servers.filter((each) => each.endpoint === endpoint).map(({ nodeId }) => nodeId) };
}

class Hurried extends Error {
  override readonly name = 'AbortError';
}

/** Says where a refusal came from, beside the refusal itself. */
class FinalRefusal extends Error {
  readonly endpoint: string;

  constructor(endpoint: string, cause: RemoteError) {
    super(`asking ${endpoint}`, { cause });
    this.endpoint = endpoint;
  }
}

function refusalIn(error: unknown): { readonly endpoint: string; readonly cause: unknown } {
  if (error instanceof FinalRefusal) return { endpoint: error.endpoint, cause: error.cause };
  throw error;
}
