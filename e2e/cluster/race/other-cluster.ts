import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { SystemClock } from '../../../internal/clock/index.ts';
import { FakeCluster } from '../../../internal/testing/cluster/fake-cluster.ts';

const CURATOR_PORT = 9091;

/**
 * Another cluster of the same owner, as a machine sees it. Its join service has real keys and grants a ticket when the story
 * says so. Its curator only records that a member connects.
 */
export class OtherCluster implements AsyncDisposable {
  readonly #cluster: FakeCluster;
  readonly #curator: Server;
  #applicant = createApplicant();
  #curatorProbe = Promise.withResolvers<void>();

  private constructor(cluster: FakeCluster, curator: Server) {
    this.#cluster = cluster;
    this.#curator = curator;
    curator.on('connection', (socket) => {
      this.#curatorProbe.resolve();
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

  /** Endpoint of the join service. */
  get endpoint(): string {
    return this.#cluster.endpoint;
  }

  /** The owner's public key in the format of a provisioning file. */
  get ownerKey(): string {
    return Buffer.from(this.#cluster.ownerKey).toString('base64');
  }

  /** From now on the join service lets every applicant wait. */
  close(): void {
    const applicant = (this.#applicant = createApplicant());
    this.#cluster.behaviour.decide = (nodeId, signal) => this.#decide(applicant, nodeId, signal);
  }

  /** Resolves when a machine has asked to join. */
  get asked(): Promise<void> {
    return this.#applicant.asked.promise;
  }

  grant(): void {
    this.#applicant.granted.resolve();
  }

  /** Resolves when the machine has canceled its request. */
  get left(): Promise<void> {
    return this.#applicant.left.promise;
  }

  /** The number of tickets that the cluster has issued to the machine that asked last. */
  mintedForWhoAsked(): number | undefined {
    return this.#cluster.minted.get(this.#applicant.nodeId);
  }

  saidSoFar(): number {
    return this.#cluster.said.length;
  }

  resetCuratorProbe(): void {
    this.#curatorProbe = Promise.withResolvers();
  }

  get curatorProbed(): Promise<void> {
    return this.#curatorProbe.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#curator.close();
    await this.#cluster[Symbol.asyncDispose]();
  }

  async *#decide(applicant: Applicant, nodeId: string, signal: AbortSignal) {
    applicant.nodeId = nodeId;
    applicant.asked.resolve();
    signal.addEventListener('abort', () => applicant.left.resolve(), { once: true });
    await applicant.granted.promise;
    yield* this.#cluster.admitted(nodeId);
    await applicant.left.promise;
  }
}

interface Applicant {
  nodeId: string;
  readonly asked: PromiseWithResolvers<void>;
  readonly granted: PromiseWithResolvers<void>;
  readonly left: PromiseWithResolvers<void>;
}

function createApplicant(): Applicant {
  return {
    nodeId: '',
    asked: Promise.withResolvers(),
    granted: Promise.withResolvers(),
    left: Promise.withResolvers(),
  };
}
