import type { DescService } from '@bufbuild/protobuf';
import { X509Certificate } from 'node:crypto';
import { childSignal, type ChildSignal } from '../../internal/cleanup/index.ts';
import { Backoff, type Clock } from '../../internal/clock/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import { combine, currentValue, EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import {
  issuerIn,
  verifyControlPlaneCertificate,
  verifyCuratorCertificate,
} from '../../internal/pki/index.ts';
import {
  type Client,
  createClient,
  RemoteError,
  RpcChannel,
  tlsClientUpgrade,
  type Upgrade,
} from '../../internal/rpc/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { Membership } from '../membership/index.ts';
import { type ClusterDirectory, directoryFromMembership } from './directory.ts';
import { CuratorClientError } from './errors.ts';
import { type CuratorTarget, curatorTargets, isLastResort, rankTargets, targetKey } from './targets.ts';

/** If a curator worked for this time and then fails, it is tried again. */
const SETTLED_MS = 5_000;
const PAUSES = { firstMs: 500, factor: 1.5, longestMs: 15_000 };
/** A peer that disappears is detected after twice this time. */
const KEEPALIVE_MS = 5_000;

/**
 * After this time a node that is refused as removed asks again before it believes it. A removal stops everything on the
 * node for good, and a record may be missing for an instant, e.g. while a broken one is being replaced.
 */
const CONFIRM_REMOVAL_MS = 5_000;

/** The code with which a curator refuses a caller without a record. */
const NOT_MEMBER = 'curator-not-member';

/** A connection of this node to one curator. */
export interface CuratorConnection {
  readonly endpoint: string;
  readonly client: Client<typeof Curator>;
  /** Returns the client of another contract of curators. */
  readonly of: <S extends DescService>(service: S) => Client<S>;
}

/** Work with one curator. The signal is aborted when the work must stop, e.g. because the curator has left the list. */
type CuratorWork<T> = (curator: CuratorConnection, signal: AbortSignal) => Promise<T>;

/** Calls to the curators of the cluster, one curator at a time. */
export interface Curators {
  /**
   * Calls one curator: the curator of this node if it works, otherwise the least busy one. When that curator fails or
   * leaves the list of curators, `work` starts again with the next curator. Each listed curator is tried once, and one
   * curator that is not listed. If all of them fail, the last error is thrown. A permanent refusal is thrown at once,
   * except the report that this node is removed: a single curator does not suffice for that, and the curators are asked
   * twice, five seconds apart.
   * @param work may run for long, e.g. a watch; its signal is also aborted when the curator leaves the list
   */
  use<T>(
    work: CuratorWork<T>,
    options: { readonly signal: AbortSignal; readonly exceptOwn?: boolean },
  ): Promise<T>;
}

/** Connections to all curators of the cluster at the same time. */
export interface AllCurators {
  /**
   * Runs `work` with every listed curator at once, until the signal is aborted. When `work` ends, it starts
   * again. It starts for curators that are added to the list, and is aborted for those that leave the list.
   */
  each(work: CuratorWork<void>, signal: AbortSignal): Promise<never>;
}

/** Inputs of a curator client and the addresses that it may use. */
export interface CuratorClientOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    readonly clusterDirectory: Readable<ClusterDirectory | undefined>;
    readonly clusterRelays: Readable<readonly string[] | undefined>;
  };
  readonly keyPem: Secret<string>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly port: number;
  /** Port at which relays forward to curators. */
  readonly relayPort: number;
  /** The hosts that operators have configured. They are used if no listed curator responds. */
  readonly staticHosts: () => readonly string[];
  readonly random: () => number;
  /** After how long curators without a record of this node are asked again. Default: 5 s. */
  readonly confirmRemovalMs?: number;
}

/**
 * The client of curators that all workers of the agent share. It opens a connection to a curator when that
 * curator is first needed, and closes it when the curator leaves the list of curators (`clusterDirectory`).
 * New connections use the newest certificate of this node.
 */
export class CuratorClient implements Curators, AllCurators, Disposable {
  readonly #options: CuratorClientOptions;
  readonly #offset: number;
  readonly #channels = new Map<string, RpcChannel>();
  readonly #calls = new Map<string, Set<ChildSignal>>();
  readonly #failedAtMs = new Map<string, number>();
  readonly #subscriptions: readonly Disposable[];
  readonly #removed = new EventValue<boolean>();
  readonly #needsTicket = new EventValue<boolean>();
  /** Targets, by `targetKey`, whose certificate was issued by another cluster CA than the certificate of this node. */
  readonly #otherCa = new Set<string>();

  constructor(options: CuratorClientOptions) {
    const { clusterDirectory, clusterMembership } = options.reads;
    this.#options = options;
    this.#removed.set(false);
    this.#needsTicket.set(false);
    this.#offset = Math.floor(options.random() * 1024);
    const onChange = (): void => this.#dropGone();
    const onMembership = (): void => {
      this.#otherCa.clear();
      if (currentValue(this.#needsTicket) === true) this.#needsTicket.set(false);
      onChange();
    };
    this.#subscriptions = [clusterDirectory.subscribe(onChange), clusterMembership.subscribe(onMembership)];
  }

  /** Whether this node is removed: no curator that answers has a record of its key, asked twice. */
  get removed(): Readable<boolean> {
    return this.#removed;
  }

  /**
   * Whether this node needs a ticket to get a new certificate: no curator could be called, and one of them showed a
   * certificate of a cluster CA that has not signed this node's certificate. Then the cluster CA was replaced while
   * this node was off. A join service can prove the new CA and issue a certificate from it.
   */
  get needsTicket(): Readable<boolean> {
    return this.#needsTicket;
  }

  [Symbol.dispose](): void {
    for (const each of this.#subscriptions) each[Symbol.dispose]();
    for (const channel of this.#channels.values()) channel[Symbol.dispose]();
    this.#channels.clear();
  }

  async use<T>(
    work: CuratorWork<T>,
    options: { readonly signal: AbortSignal; readonly exceptOwn?: boolean },
  ): Promise<T> {
    const { clock, log, confirmRemovalMs = CONFIRM_REMOVAL_MS } = this.#options;
    const { signal, exceptOwn = false } = options;
    const tried = new Set<string>();
    let isAtLast = false;
    let last: unknown = new CuratorClientError('curatorclient-no-curator', 'no curator known');
    let disowned: CuratorClientError | undefined;
    let isConfirming = false;
    let isOutdated = false;
    for (;;) {
      signal.throwIfAborted();
      const target = this.#ranked(exceptOwn).find(
        (each) => !tried.has(targetKey(each)) && !(isAtLast && isLastResort(each)),
      );
      if (target === undefined) {
        if (isOutdated && currentValue(this.#needsTicket) === false) this.#needsTicket.set(true);
        if (disowned === undefined) throw last;
        if (isConfirming) throw this.#reportRemoved(disowned);
        log.warn('no curator has a record of this node: asking once more', { error: disowned });
        await clock.sleep(confirmRemovalMs, signal);
        isConfirming = true;
        disowned = undefined;
        tried.clear();
        isAtLast = false;
        continue;
      }
      tried.add(targetKey(target));
      isAtLast ||= isLastResort(target);
      const startedMs = clock.monotonicMs();
      try {
        return await this.#with(target, work, signal);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        disowned = disownedBy(target, error) ?? disowned;
        if (error instanceof RemoteError && !error.retryable && error.code !== NOT_MEMBER) throw error;
        isOutdated ||= !(error instanceof RemoteError) && this.#otherCa.has(targetKey(target));
        if (isDown(error)) this.#failedAtMs.set(targetKey(target), clock.monotonicMs());
        log.info('curator failed, trying the next one', { endpoint: target.endpoint, error });
        last = error;
        if (clock.monotonicMs() - startedMs > SETTLED_MS) {
          tried.clear();
          isAtLast = false;
        }
      }
    }
  }

  async each(work: CuratorWork<void>, signal: AbortSignal): Promise<never> {
    const { clusterDirectory, clusterMembership } = this.#options.reads;
    const staying = new Map<string, Promise<void>>();
    using changes = combine({ clusterDirectory, clusterMembership }).watch();
    try {
      for (;;) {
        await changes.next(signal);
        for (const target of this.#targets()) {
          const key = targetKey(target);
          if (target.nodeId === undefined || staying.has(key)) continue;
          const stay = this.#stay(target, work, signal).finally(() => staying.delete(key));
          staying.set(key, stay);
          stay.catch(() => undefined); // rejects with the signal's reason; `changes` ends with it too
        }
      }
    } finally {
      await Promise.allSettled(staying.values());
    }
  }

  /** Repeats the work until the target leaves the list of curators. */
  async #stay(target: CuratorTarget, work: CuratorWork<void>, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    const isThere = (): boolean => this.#targets().some((each) => targetKey(each) === targetKey(target));
    const backoff = new Backoff(PAUSES);
    while (isThere()) {
      const startedMs = clock.monotonicMs();
      try {
        await this.#with(target, work, signal);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        log.debug('connection to curator ended', { endpoint: target.endpoint, error });
      }
      if (clock.monotonicMs() - startedMs > SETTLED_MS) backoff.reset();
      await clock.sleep(backoff.nextMs(), signal);
    }
  }

  #reportRemoved(removed: CuratorClientError): CuratorClientError {
    this.#options.log.error('this node was removed: no curator has a record of its key', { error: removed });
    this.#removed.set(true);
    return removed;
  }

  async #with<T>(target: CuratorTarget, work: CuratorWork<T>, signal: AbortSignal): Promise<T> {
    using child = childSignal(signal);
    const key = targetKey(target);
    const calls = this.#calls.get(key) ?? new Set();
    this.#calls.set(key, calls.add(child));
    const channel = this.#channel(target);
    const of = <S extends DescService>(service: S): Client<S> => createClient(service, channel);
    try {
      const done = await work({ endpoint: target.endpoint, client: of(Curator), of }, child.signal);
      this.#failedAtMs.delete(key);
      return done;
    } catch (error) {
      // Throws that the curator has left the list, not the error of the work, which is only a consequence.
      throw child.signal.aborted && !signal.aborted ? child.signal.reason : error;
    } finally {
      // Ends parts of the work that are still running.
      const ended = `work with the curator at ${target.endpoint} has ended`;
      child.abort(new CuratorClientError('curatorclient-left-directory', ended));
      calls.delete(child);
      if (calls.size === 0) this.#calls.delete(key);
    }
  }

  /** The listed curators and the configured addresses. */
  #targets(): readonly CuratorTarget[] {
    return this.#allTargets().filter(({ source }) => source !== 'relay');
  }

  /**
   * All targets, including relays, for a machine that was off for a long time. A new list of control planes replaces them.
   */
  #allTargets(): readonly CuratorTarget[] {
    const { reads, staticHosts, port, relayPort } = this.#options;
    const membership = currentValue(reads.clusterMembership);
    if (membership === undefined) return [];
    const directory = currentValue(reads.clusterDirectory) ?? directoryFromMembership(membership);
    const relays = currentValue(reads.clusterRelays) ?? [];
    return curatorTargets({
      ...{ directory, port, relayPort },
      staticHosts: staticHosts(),
      // The relay on this node knows no more curators than this node.
      relays: relays.filter((host) => host !== membership.nodeAddress),
    });
  }

  #ranked(exceptOwn: boolean): readonly CuratorTarget[] {
    const ownNodeId = currentValue(this.#options.reads.clusterMembership)?.nodeId;
    const targets = this.#allTargets().filter(({ nodeId }) => !exceptOwn || nodeId !== ownNodeId);
    return rankTargets(targets, {
      nowMs: this.#options.clock.monotonicMs(),
      ownNodeId,
      failedAtMs: this.#failedAtMs,
      callsInFlight: new Map([...this.#calls].map(([key, calls]) => [key, calls.size])),
      offset: this.#offset,
    });
  }

  #channel(target: CuratorTarget): RpcChannel {
    const key = targetKey(target);
    const open = this.#channels.get(key);
    if (open !== undefined) return open;
    const options = { endpoint: target.endpoint, keepaliveMs: KEEPALIVE_MS };
    const channel = new RpcChannel({ ...options, upgrade: this.#upgrade(target) });
    this.#channels.set(key, channel);
    return channel;
  }

  /**
   * Connects with mTLS and the current certificate. The peer must be the node that the list of curators names
   * for this address, or any control plane if it names none.
   */
  #upgrade(target: CuratorTarget): Upgrade<string> {
    const { reads, keyPem, clock } = this.#options;
    return (socket, signal) => {
      const membership = currentValue(reads.clusterMembership);
      if (membership === undefined)
        throw new CuratorClientError('curatorclient-no-curator', 'this node is not a member');
      const { clusterCaPem: caPem, clusterId, nodeCertPem: certPem } = membership;
      const trust = { caPem, clusterId, nowMs: () => clock.nowMs() };
      const upgrade = tlsClientUpgrade({
        clock,
        identity: { certPem, keyPem },
        accept: (certificate) => {
          this.#noteCa(target, certificate, membership);
          // If no node is expected, any worker could respond with its own certificate.
          if (target.nodeId === undefined) return verifyControlPlaneCertificate(certificate, trust).nodeId;
          const { nodeId } = verifyCuratorCertificate(certificate, trust);
          if (nodeId !== target.nodeId)
            throw new CuratorClientError(
              'curatorclient-other-node',
              `node ${nodeId} responds at ${target.endpoint}, expected ${target.nodeId}`,
            );
          return nodeId;
        },
      });
      return upgrade(socket, signal);
    };
  }

  /**
   * Remembers that a curator showed a certificate of another cluster CA. Such a curator may trust only its own CA, and
   * then closes the connection without naming this reason.
   */
  #noteCa(
    target: CuratorTarget,
    certificate: X509Certificate,
    { clusterCaPem, nodeCertPem }: Pick<Membership, 'clusterCaPem' | 'nodeCertPem'>,
  ): void {
    const issuer = issuerIn(certificate, clusterCaPem);
    const isSame =
      issuer !== undefined && issuer === issuerIn(new X509Certificate(nodeCertPem), clusterCaPem);
    if (isSame) this.#otherCa.delete(targetKey(target));
    else this.#otherCa.add(targetKey(target));
  }

  /** Closes connections to curators that have left the list, and aborts their calls. */
  #dropGone(): void {
    const keys = new Set(this.#targets().map(targetKey));
    for (const [key, channel] of this.#channels) {
      if (keys.has(key)) continue;
      this.#channels.delete(key);
      this.#failedAtMs.delete(key);
      const gone = `curator at ${channel.endpoint} has left the list of control planes`;
      for (const call of this.#calls.get(key) ?? [])
        call.abort(new CuratorClientError('curatorclient-left-directory', gone));
      channel[Symbol.dispose]();
    }
  }
}

/**
 * Returns the error that this node is removed if the curator has no record of this node; otherwise undefined. Curators
 * answer from a linearizable read. So two curators disagree only if one of them lies, or has closed a stream because of
 * an older change.
 */
function disownedBy({ endpoint }: CuratorTarget, error: unknown): CuratorClientError | undefined {
  if (!(error instanceof RemoteError) || error.code !== NOT_MEMBER) return undefined;
  const what = `curator at ${endpoint} does not know this node`;
  return new CuratorClientError('curatorclient-not-member', what, { cause: error });
}

/** Whether a curator is down: the curator or its etcd does not respond. */
function isDown(error: unknown): boolean {
  if (error instanceof CuratorClientError && error.code === 'curatorclient-left-directory') return false;
  return !(error instanceof RemoteError) || String(error.code).startsWith('etcd-');
}
