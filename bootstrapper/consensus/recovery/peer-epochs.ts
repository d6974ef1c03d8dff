import type { EtcdClient } from '../../../internal/etcd/index.ts';
import { fetchEpoch, newestEpochOf, type NewestEpoch } from './epoch.ts';
import type { EtcdName } from '../etcd-instances.ts';

/**
 * Asks members for their epoch, the same ones again and again, over connections that last from one question to the next: to
 * make one costs both ends ten times what the question does. One that failed is made anew, with the certificates of then.
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
   * The newest epoch that any of these members serves. Each is asked by itself: two that missed a recovery would confirm
   * each other. One without a quorum cannot answer, and so decides nothing. Who is not asked any more is let go.
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
      // The connection may have ended long before the question.
      return wasOpen && !signal.aborted ? this.#epochOf(endpoint, signal) : 0;
    }
  }

  #close(endpoint: string): void {
    this.#open.get(endpoint)?.[Symbol.dispose]();
    this.#open.delete(endpoint);
  }
}

type Peer = Pick<EtcdClient, 'get'> & Disposable;
