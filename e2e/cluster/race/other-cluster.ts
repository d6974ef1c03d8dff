import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { SystemClock } from '../../../internal/clock/index.ts';
import { FakeCluster } from '../../../internal/testing/cluster/fake-cluster.ts';

const CURATOR_PORT = 9091;

/**
 * Another cluster of the same owner, as a machine sees it: a join service with real keys that lets in whoever asks when it
 * is told to, and the door of a curator, at which members knock.
 */
export class OtherCluster implements AsyncDisposable {
  readonly #cluster: FakeCluster;
  readonly #curator: Server;
  #asking = createAsking();
  #knock = Promise.withResolvers<void>();

  private constructor(cluster: FakeCluster, curator: Server) {
    this.#cluster = cluster;
    this.#curator = curator;
    curator.on('connection', (socket) => {
      this.#knock.resolve();
      socket.destroy();
    });
  }

  static async start(host: string, ownerKey: KeyObject): Promise<OtherCluster> {
    const curator = createServer();
    await once(curator.listen(CURATOR_PORT, host), 'listening');
    return new OtherCluster(await FakeCluster.start(new SystemClock(), { host, ownerKey }), curator);
  }

  get clusterId(): string {
    return this.#cluster.clusterId;
  }

  /** Of its join service. */
  get endpoint(): string {
    return this.#cluster.endpoint;
  }

  /** As machines are provisioned with it. */
  get ownerKey(): string {
    return Buffer.from(this.#cluster.ownerKey).toString('base64');
  }

  /** From now on whoever asks waits. */
  close(): void {
    const asking = (this.#asking = createAsking());
    this.#cluster.behaviour.decide = (nodeId, signal) => this.#decide(asking, nodeId, signal);
  }

  /** A machine stands before the door. */
  get asked(): Promise<void> {
    return this.#asking.asked.promise;
  }

  grant(): void {
    this.#asking.granted.resolve();
  }

  /** Its question has ended, by its own doing. */
  get left(): Promise<void> {
    return this.#asking.left.promise;
  }

  /** How many memberships there are of the machine that asked last. */
  mintedForWhoAsked(): number | undefined {
    return this.#cluster.minted.get(this.#asking.nodeId);
  }

  saidSoFar(): number {
    return this.#cluster.said.length;
  }

  forgetKnocks(): void {
    this.#knock = Promise.withResolvers();
  }

  get knocked(): Promise<void> {
    return this.#knock.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#curator.close();
    await this.#cluster[Symbol.asyncDispose]();
  }

  async *#decide(asking: Asking, nodeId: string, signal: AbortSignal) {
    asking.nodeId = nodeId;
    asking.asked.resolve();
    signal.addEventListener('abort', () => asking.left.resolve(), { once: true });
    await asking.granted.promise;
    yield* this.#cluster.admitted(nodeId);
    await asking.left.promise;
  }
}

interface Asking {
  nodeId: string;
  readonly asked: PromiseWithResolvers<void>;
  readonly granted: PromiseWithResolvers<void>;
  readonly left: PromiseWithResolvers<void>;
}

function createAsking(): Asking {
  return {
    nodeId: '',
    asked: Promise.withResolvers(),
    granted: Promise.withResolvers(),
    left: Promise.withResolvers(),
  };
}
