import type { EtcdClient } from '../../../internal/etcd/index.ts';
import { fetchEpoch, newestEpochOf, type NewestEpoch } from './epoch.ts';
import type { EtcdName } from '../etcd-instances.ts';

/**
 * Requests the epochs of members repeatedly, over connections that stay open: a new connection costs both
 * ends ten times as much as the request. A failed connection is replaced by one with the current
 * certificates.
 */
export class PeerEpochs implements Disposable {
  readonly #connect: (endpoint: string) => Promise<Peer>;
  readonly #name: EtcdName;
  readonly #open = new Map<string, Peer>();

  constructor(name: EtcdName, connect: (endpoint: string) => Promise<Peer>) {
    this.#name = name;
    this.#connect = connect;
  }

  [Symbol.dispose](): void {
    for (const endpoint of [...this.#open.keys()]) this.#close(endpoint);
  }

  /**
   * Returns the newest epoch that any of these members serves. Each member is asked directly, because members
   * that missed a recovery would confirm each other. A member without a quorum cannot answer. Connections to
   * members that are not listed are closed.
   */
  async newest(endpoints: readonly string[], signal: AbortSignal): Promise<NewestEpoch> {
    for (const endpoint of [...this.#open.keys()]) if (!endpoints.includes(endpoint)) this.#close(endpoint);
    const answers = await Promise.all(
      endpoints.map(async (endpoint) => ({ endpoint, epoch: await this.#epochOf(endpoint, signal) })),
    );
    signal.throwIfAborted();
    return newestEpochOf(answers);
  }

  async #epochOf(endpoint: string, signal: AbortSignal): Promise<number> {
    const wasOpen = this.#open.has(endpoint);
    try {
      const etcd = this.#open.get(endpoint) ?? (await this.#connect(endpoint));
      this.#open.set(endpoint, etcd);
      return (await fetchEpoch(etcd, this.#name, signal)) ?? 0;
    } catch {
      this.#close(endpoint);
      // The peer may have closed the connection before the request: try a new connection.
      return wasOpen && !signal.aborted ? this.#epochOf(endpoint, signal) : 0;
    }
  }

  #close(endpoint: string): void {
    this.#open.get(endpoint)?.[Symbol.dispose]();
    this.#open.delete(endpoint);
  }
}

type Peer = Pick<EtcdClient, 'get'> & Disposable;
