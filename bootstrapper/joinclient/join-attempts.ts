import { childSignal, untilAborted } from '../../internal/cleanup/index.ts';
import { Backoff } from '../../internal/clock/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import type { EventValue } from '../../internal/event/index.ts';
import { RemoteError } from '../../internal/rpc/index.ts';
import { discover } from './discovery.ts';
import type { JoinClientOptions, JoinClientPorts } from './join-client-options.ts';
import type { JoinFacts } from './join-facts.ts';
import { JoinSession } from './join-session.ts';
import type { JoinProblem, JoinStatus } from './join-status.ts';
import { recordNameLookup } from './name-lookup.ts';
import { openFirst } from './open-first.ts';
import type { ClusterTrust } from './verify-cluster.ts';

/** Interval between searches for endpoints while no endpoint is known. */
const IDLE_MS = 5_000;
/** After a session of at least this length, the pauses after failures start again with the shortest pause. */
const SETTLED_MS = 10_000;
const PAUSES = { firstMs: 500, factor: 1.6, longestMs: 60_000 };
/** The longest pause that a cluster can ask for. */
const LONGEST_HINT_MS = 10 * PAUSES.longestMs;

/** The cluster and the nodes that a request may go to. */
export interface Target {
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

/** A permanent refusal, with the endpoint that sent it. */
export class FinalRefusal extends Error {
  readonly endpoint: string;

  constructor(endpoint: string, cause: RemoteError) {
    super(`request to ${endpoint} refused`, { cause });
    this.endpoint = endpoint;
  }
}

/** Finds a join service and opens a session with it, again and again, until the work over a session succeeds. */
export class JoinAttempts {
  readonly #ports: JoinClientPorts;
  readonly #options: JoinClientOptions;
  readonly #status: EventValue<JoinStatus>;
  readonly #facts: JoinFacts;
  /** Ends the current attempt or pause. */
  #wake: () => void = () => undefined;
  /** The pause that the join service last asked for. */
  #retryAfterMs = 0;

  constructor(
    ports: JoinClientPorts,
    options: JoinClientOptions,
    shared: { readonly status: EventValue<JoinStatus>; readonly facts: JoinFacts },
  ) {
    this.#ports = ports;
    this.#options = options;
    this.#status = shared.status;
    this.#facts = shared.facts;
  }

  /** Ends the current attempt or pause, so that the next attempt begins at once. */
  retryNow(): void {
    this.#wake();
  }

  /** Sets the shortest pause after the next failure, as the join service has asked. */
  postpone(ms: number): void {
    this.#retryAfterMs = Math.min(ms, LONGEST_HINT_MS);
  }

  /**
   * Repeats attempts until one succeeds.
   * @throws FinalRefusal if the cluster refuses this machine permanently
   */
  async run<T>(
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
          const unfit = target.boundTo === undefined ? await this.#checkMachine() : undefined;
          const session = await this.#open(endpoints, target, round.signal).catch((error: unknown) => {
            throw unfit ?? error;
          });
          if (unfit !== undefined) {
            await this.#reportUnfit(session, unfit, round.signal);
            throw unfit;
          }
          at.endpoint = session.endpoint;
          at.openedMs = this.#ports.clock.monotonicMs();
          return await work(session, round.signal);
        }
        if (this.isNews('idle')) this.#status.set({ kind: 'idle' });
        await this.#ports.clock.sleep(IDLE_MS, round.signal);
      } catch (error) {
        signal.throwIfAborted();
        if (round.signal.aborted) continue;
        lastError = this.problemOf(error);
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

  /** The check of this machine that fails; undefined if all pass. */
  async #checkMachine(): Promise<Error | undefined> {
    const unfit = await this.#ports.checkMachine().then(
      () => undefined,
      (error: Error) => error,
    );
    this.#facts.recordChecks(unfit);
    return unfit;
  }

  /** Reports a failed check to the cluster, which refuses the machine and shows the check to operators. */
  async #reportUnfit(session: JoinSession, unfit: Error, signal: AbortSignal): Promise<void> {
    using open = session;
    const introduction = { ...this.#options.introduction(), facts: this.#facts.list() };
    try {
      // A join service of an older version does not know the check: it lets the machine wait, or admits it.
      await open.requestAdmission(
        introduction,
        () => {
          throw unfit;
        },
        signal,
      );
    } catch (error) {
      signal.throwIfAborted();
      this.#ports.log.debug('failed check reported to the cluster', { endpoint: open.endpoint, error });
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
        const trust = await this.trust(target.boundTo, serverAt(endpoint, target));
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

  /** Collects the facts with which a server's identity is verified. */
  async trust(boundTo: string | undefined, server: ClusterTrust['server']): Promise<ClusterTrust> {
    const { ownerKeys, pinned, readKnownCa } = this.#options;
    return { ownerKeys, pinned, ca: await readKnownCa(), boundTo, server };
  }

  /** Whether the current status is of a different kind. */
  isNews(kind: JoinStatus['kind']): boolean {
    const now = this.#status.peek();
    return !now.set || now.value.kind !== kind;
  }

  /** Waits for `retryNow()`. */
  untilRetry(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return Promise.race([promise, untilAborted(signal)]);
  }

  /** An error as the status shows it. */
  problemOf(error: unknown): JoinProblem {
    const { code = 'internal', fix = '', exit = 'internal' } = findCoded(error) ?? {};
    return { code, message: describeError(error), fix, exit, timeMs: this.#ports.clock.nowMs() };
  }
}

function serverAt(endpoint: string, { servers }: Target): ClusterTrust['server'] {
  if (servers === 'any') return servers;
  return { nodeIds: servers.filter((each) => each.endpoint === endpoint).map(({ nodeId }) => nodeId) };
}
