import type { MessageInitShape } from '@bufbuild/protobuf';
import type { MemberIdentity } from '../../internal/pki/index.ts';
import { NODES_PREFIX, parseNodeKey, records } from '../../internal/records/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import {
  createMemoryLogger,
  FakeClock,
  MemoryEtcd,
  settle,
  TestCluster,
  type TestPeer,
} from '../../internal/testing/index.ts';
import type { Curator as CuratorContract, WatchNodesResponse } from '../curatorproto/gen/curator_pb.js';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { Curator } from './curator.ts';

/** The calls of a curator, which a test makes without a network connection. */
export type CuratorHandlers = Handlers<typeof CuratorContract, MemberIdentity>;

/**
 * One fake etcd and one cluster with an owner and a control-plane node. A test creates as many curators as it
 * needs.
 */
export class TestCurators implements AsyncDisposable {
  readonly etcd: MemoryEtcd;
  readonly clock: FakeClock;
  readonly cluster: TestCluster;
  readonly first: TestPeer;
  readonly owner: TestPeer;
  /** The owner who signs documents; the curators know the owner’s public key. */
  readonly signer: FakeOwner;
  readonly all: readonly Curator[];
  readonly #stop = new AbortController();
  readonly #runs: readonly Promise<unknown>[];

  private constructor(parts: Parts, count: number) {
    this.etcd = parts.etcd;
    this.clock = parts.clock;
    this.signer = parts.signer;
    this.cluster = parts.cluster;
    this.first = parts.first;
    this.owner = parts.owner;
    const nodeId = nodeIdOf(parts.first);
    const ownerDocs = this.signer.ownerDocs(this.etcd);
    const facts = {
      certificates: [{ name: 'curator', notAfterMs: 7 }],
      etcdStatus: async () => ({
        dbSizeBytes: 1n,
        quotaBytes: 2n,
        hasLeader: true,
        isFull: false,
        isCorrupt: false,
        members: [],
      }),
      etcdMembers: () => this.#controlPlanesAsMembers(),
    };
    this.all = Array.from(
      { length: count },
      () =>
        new Curator({
          etcd: this.etcd,
          ownerDocs,
          nodeId,
          facts,
          clock: this.clock,
          log: createMemoryLogger().log,
        }),
    );
    this.#runs = this.all.map((curator) => curator.run(this.#stop.signal).catch((error: unknown) => error));
  }

  static async create(count = 1, etcd = new MemoryEtcd()): Promise<TestCurators> {
    const clock = new FakeClock();
    const nowMs = clock.nowMs();
    const signer = new FakeOwner({ clock });
    const cluster = await TestCluster.create(etcd, () => nowMs, signer);
    const first = await cluster.addNode('first', { roles: ['ConsensusMember', 'KubernetesController'] });
    const owner = await cluster.addOperator('owner', 'owner');
    const curators = new TestCurators({ etcd, clock, cluster, first, owner, signer }, count);
    await settle();
    return curators;
  }

  /** The etcd members as they are after every recorded control plane has applied its roles. */
  async #controlPlanesAsMembers() {
    const { entries } = await this.etcd.list(NODES_PREFIX, { signal: this.#stop.signal });
    const nodes = entries
      .filter(({ key }) => parseNodeKey(key)?.part === 'record')
      .map(({ key, value }) => records.node.decode(key, value));
    return nodes
      .filter(({ state, roles }) => state === 'UP' && isControlPlane(roles))
      .map(({ nodeId }) => ({ name: nodeId, isLearner: false, started: true }));
  }

  /** The calls of one curator. */
  at(index: number): CuratorHandlers {
    const curator = this.all[index];
    if (curator === undefined) throw new Error(`there is no curator ${index}`);
    return curator.service.handlers as unknown as CuratorHandlers;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the test is over'));
    await Promise.allSettled(this.#runs);
  }
}

type Parts = Pick<TestCurators, 'etcd' | 'clock' | 'cluster' | 'first' | 'owner' | 'signer'>;

/** The ID of a node. */
export function nodeIdOf({ identity }: TestPeer): string {
  if (identity.kind !== 'node') throw new Error(`operator ${identity.name} is no node`);
  return identity.nodeId;
}

/**
 * Returns `create()`, whose curators end with the test. Call it once in each test file, with the file’s
 * `afterEach`.
 */
export function curatorsOfTests(afterEach: (work: () => Promise<void>) => void) {
  const made: TestCurators[] = [];
  afterEach(async () => {
    for (const each of made.splice(0)) await each[Symbol.asyncDispose]();
  });
  return async (count = 1) => {
    const all = await TestCurators.create(count);
    made.push(all);
    const { etcd, clock, cluster, first, owner, signer } = all;
    const curators = Array.from({ length: count }, (_, index) => all.at(index));
    return { etcd, clock, cluster, first, owner, signer, curator: all.at(0), curators };
  };
}

/** The call context of this member. */
export function as({ identity }: TestPeer, signal = new AbortController().signal) {
  return { peer: identity, signal, address: '127.0.0.1' };
}

export const mutation = (idempotencyKey: string = crypto.randomUUID()) => ({ idempotencyKey });

/** Reads a watch message by message. */
export function follow(
  messages: AsyncIterable<MessageInitShape<(typeof CuratorContract)['method']['watchNodes']['output']>>,
) {
  const iterator = messages[Symbol.asyncIterator]();
  return {
    next: async () => (await iterator.next()).value as WatchNodesResponse,
    end: () => iterator.return?.(),
  };
}

/** A request stream with one message. */
export async function* one(message: unknown, staysOpen = false) {
  yield message;
  if (staysOpen) await new Promise(() => undefined);
}
