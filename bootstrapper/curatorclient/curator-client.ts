import type { DescService } from '@bufbuild/protobuf';
import { childSignal, type ChildSignal } from '../../internal/cleanup/index.ts';
import { Backoff, type Clock } from '../../internal/clock/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import { combine, currentValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { verifyControlPlaneCertificate, verifyCuratorCertificate } from '../../internal/pki/index.ts';
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

/** A curator that served for so long has earned another try when it fails. */
const SETTLED_MS = 5_000;
const PAUSES = { firstMs: 500, factor: 1.5, longestMs: 15_000 };
/** A peer that went without a word is noticed after twice this. */
const KEEPALIVE_MS = 5_000;

/** One curator, as this node. */
export interface CuratorConnection {
  readonly endpoint: string;
  readonly client: Client<typeof Curator>;
  /** Another contract that curators serve. */
  readonly of: <S extends DescService>(service: S) => Client<S>;
}

/** This node's way to the curators of its cluster. */
export interface Curators {
  /**
   * Works with one curator: the own one if it serves, else the least busy. When it fails or leaves the directory, the
   * work is begun anew with the next one; each is tried once, and one of those that are not in the directory, then the last
   * error is thrown. A curator's final refusal is thrown at once.
   * @param work may be long, e.g. a watch; its signal also fires when the curator leaves the directory
   */
  use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    options: { readonly signal: AbortSignal; readonly exceptOwn?: boolean },
  ): Promise<T>;
}

/** This node's way to all curators at the same time. */
export interface AllCurators {
  /**
   * Works with every curator of the directory at once, until the signal fires: begun anew wherever it ends, begun with
   * who comes, ended with who leaves.
   */
  each(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<never>;
}

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
  /** Of the curators behind a relay. */
  readonly relayPort: number;
  /** Hosts that an operator wrote down, as they are now: asked when nobody in the directory answers. */
  readonly staticHosts: () => readonly string[];
  readonly random: () => number;
}

/**
 * One long-lived client for all workers: a connection per curator, made when first needed and kept. It follows the
 * directory, so that nobody holds on to a curator that has gone, and takes this node's newest certificate for each
 * connection that it makes.
 */
export class CuratorClient implements Curators, AllCurators, Disposable {
  readonly #options: CuratorClientOptions;
  readonly #offset: number;
  readonly #channels = new Map<string, RpcChannel>();
  readonly #calls = new Map<string, Set<ChildSignal>>();
  readonly #failedAtMs = new Map<string, number>();
  readonly #subscriptions: readonly Disposable[];

  constructor(options: CuratorClientOptions) {
    const { clusterDirectory, clusterMembership } = options.reads;
    this.#options = options;
    this.#offset = Math.floor(options.random() * 1024);
    const onChange = (): void => this.#dropGone();
    this.#subscriptions = [clusterDirectory.subscribe(onChange), clusterMembership.subscribe(onChange)];
  }

  [Symbol.dispose](): void {
    for (const each of this.#subscriptions) each[Symbol.dispose]();
    for (const channel of this.#channels.values()) channel[Symbol.dispose]();
    this.#channels.clear();
  }

  async use<T>(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    options: { readonly signal: AbortSignal; readonly exceptOwn?: boolean },
  ): Promise<T> {
    const { clock, log } = this.#options;
    const { signal, exceptOwn = false } = options;
    const tried = new Set<string>();
    let isAtLast = false;
    let last: unknown = new CuratorClientError('curatorclient-no-curator', 'choosing a curator');
    for (;;) {
      signal.throwIfAborted();
      const target = this.#ranked(exceptOwn).find(
        (each) => !tried.has(targetKey(each)) && !(isAtLast && isLastResort(each)),
      );
      if (target === undefined) throw last;
      tried.add(targetKey(target));
      isAtLast ||= isLastResort(target);
      const startedMs = clock.monotonicMs();
      try {
        return await this.#with(target, work, signal);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        if (error instanceof RemoteError && !error.retryable) throw this.#finalFrom(error, target);
        if (isDown(error)) this.#failedAtMs.set(targetKey(target), clock.monotonicMs());
        log.info('a curator did not serve to the end', { endpoint: target.endpoint, error });
        last = error;
        if (clock.monotonicMs() - startedMs > SETTLED_MS) {
          tried.clear();
          isAtLast = false;
        }
      }
    }
  }

  async each(
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<never> {
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
          stay.catch(() => undefined); // the signal's reason: `changes` ends with it too
        }
      }
    } finally {
      await Promise.allSettled(staying.values());
    }
  }

  /** Until the target leaves the directory. */
  async #stay(
    target: CuratorTarget,
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, log } = this.#options;
    const isThere = (): boolean => this.#targets().some((each) => targetKey(each) === targetKey(target));
    const backoff = new Backoff(PAUSES);
    while (isThere()) {
      const startedMs = clock.monotonicMs();
      try {
        await this.#with(target, work, signal);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        log.debug('a curator did not stay', { endpoint: target.endpoint, error });
      }
      if (clock.monotonicMs() - startedMs > SETTLED_MS) backoff.reset();
      await clock.sleep(backoff.nextMs(), signal);
    }
  }

  /** A linearizable read is behind each refusal: what one curator says of this node's membership, all of them do. */
  #finalFrom(error: RemoteError, { endpoint }: CuratorTarget): Error {
    if (error.code !== 'curator-not-member') return error;
    const disowned = new CuratorClientError('curatorclient-not-member', `asking the curator at ${endpoint}`, {
      cause: error,
    });
    this.#options.log.error('this node is disowned: the cluster has no record of its key', {
      endpoint,
      error: disowned,
    });
    return disowned;
  }

  async #with<T>(
    target: CuratorTarget,
    work: (curator: CuratorConnection, signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
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
      // What the work made of the curator's leaving matters less than that it left.
      throw child.signal.aborted && !signal.aborted ? child.signal.reason : error;
    } finally {
      // Work that raced may have left a part of itself behind: nothing of it outlives the rest.
      child.abort(
        new CuratorClientError(
          'curatorclient-left-directory',
          `working with the curator at ${target.endpoint}: it is over`,
        ),
      );
      calls.delete(child);
      if (calls.size === 0) this.#calls.delete(key);
    }
  }

  /** Who serves as far as the cluster has told, and whom an operator named. */
  #targets(): readonly CuratorTarget[] {
    return this.#everybody().filter(({ source }) => source !== 'relay');
  }

  /** The same, and relays, for a machine that was off for long. Those are left as soon as the directory changes. */
  #everybody(): readonly CuratorTarget[] {
    const { reads, staticHosts, port, relayPort } = this.#options;
    const membership = currentValue(reads.clusterMembership);
    if (membership === undefined) return [];
    const directory = currentValue(reads.clusterDirectory) ?? directoryFromMembership(membership);
    const relays = currentValue(reads.clusterRelays) ?? [];
    return curatorTargets({
      ...{ directory, port, relayPort },
      staticHosts: staticHosts(),
      // One's own knows what this node knows.
      relays: relays.filter((host) => host !== membership.nodeAddress),
    });
  }

  #ranked(exceptOwn: boolean): readonly CuratorTarget[] {
    const ownNodeId = currentValue(this.#options.reads.clusterMembership)?.nodeId;
    const targets = this.#everybody().filter(({ nodeId }) => !exceptOwn || nodeId !== ownNodeId);
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

  /** mTLS with what this node is now; the answering node must be the one that the directory names, or a control plane. */
  #upgrade(target: CuratorTarget): Upgrade<string> {
    const { reads, keyPem, clock } = this.#options;
    return (socket, signal) => {
      const membership = currentValue(reads.clusterMembership);
      if (membership === undefined)
        throw new CuratorClientError('curatorclient-no-curator', 'connecting as no member');
      const { clusterCaPem: caPem, clusterId, nodeCertPem: certPem } = membership;
      const trust = { caPem, clusterId, nowMs: () => clock.nowMs() };
      const upgrade = tlsClientUpgrade({
        clock,
        identity: { certPem, keyPem },
        accept: (certificate) => {
          // Where nobody says who it has to be, any worker could answer with its own certificate.
          if (target.nodeId === undefined) return verifyControlPlaneCertificate(certificate, trust).nodeId;
          const { nodeId } = verifyCuratorCertificate(certificate, trust);
          if (nodeId !== target.nodeId)
            throw new CuratorClientError(
              'curatorclient-other-node',
              `connecting to node ${target.nodeId} at ${target.endpoint}: node ${nodeId} answers`,
            );
          return nodeId;
        },
      });
      return upgrade(socket, signal);
    };
  }

  /** Connections to those who left are closed, and what is under way there ends at once. */
  #dropGone(): void {
    const keys = new Set(this.#targets().map(targetKey));
    for (const [key, channel] of this.#channels) {
      if (keys.has(key)) continue;
      this.#channels.delete(key);
      this.#failedAtMs.delete(key);
      const gone = `asking the curator at ${channel.endpoint}: it has left the directory`;
      for (const call of this.#calls.get(key) ?? [])
        call.abort(new CuratorClientError('curatorclient-left-directory', gone));
      channel[Symbol.dispose]();
    }
  }
}

/** A curator that answers, if only with a refusal, is not down; one that lost its etcd is as good as that. */
function isDown(error: unknown): boolean {
  if (error instanceof CuratorClientError && error.code === 'curatorclient-left-directory') return false;
  return !(error instanceof RemoteError) || String(error.code).startsWith('etcd-');
}
