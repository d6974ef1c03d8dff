import type { EtcdClient, Member } from '../../../internal/etcd/index.ts';

/** A member with a hash; its answers can be delayed, refused, or belong to another compaction. */
export interface FakeHash {
  hash: number;
  compactRevision: bigint;
  /** How often it refuses before it answers: it lags behind. */
  refusals: number;
  /** Another one than was asked for. */
  hashRevision?: bigint;
}

/** The members of an etcd as their hashes show them: "id-1", "id-2" and so on, of which the first one is the own one. */
export class FakeHashes {
  readonly members: FakeHash[];
  /** Every request: the number of the member and the revision. */
  readonly asked: string[] = [];
  /** How many connections to other members are open. */
  open = 0;
  leader = 1n;
  learners = 0;
  /** Added to the ID of each member: nodes that left and joined again. */
  generation = 0n;
  /** Called when a member is asked. */
  onAsked: (index: number) => void = () => undefined;

  constructor(...hashes: readonly number[]) {
    this.members = hashes.map((hash) => ({ hash, compactRevision: 3n, refusals: 0 }));
  }

  get listed(): readonly Member[] {
    return this.members.map((_, index) => ({
      ...{
        id: BigInt(index + 1) + (index === 0 ? 0n : this.generation),
        name: `id-${index + 1}`,
        peerUrls: [],
      },
      clientUrls: [`https://192.0.2.${index + 1}:2379`],
      isLearner: index >= this.members.length - this.learners,
    }));
  }

  get own() {
    return {
      members: { list: () => Promise.resolve(this.listed) },
      maintenance: {
        ...this.#maintenanceOf(0),
        status: () => Promise.resolve({ memberId: 1n, leaderId: this.leader, revision: 9n }),
      },
    } as unknown as Pick<EtcdClient, 'members' | 'maintenance'>;
  }

  readonly connect = (endpoint: string) => {
    const index = Number(/^192\.0\.2\.(\d+):2379$/.exec(endpoint)?.[1]) - 1;
    this.open += 1;
    const client = { maintenance: this.#maintenanceOf(index), [Symbol.dispose]: () => void (this.open -= 1) };
    return Promise.resolve(client as unknown as Pick<EtcdClient, 'maintenance'> & Disposable);
  };

  #maintenanceOf(index: number) {
    return {
      hash: (revision: bigint) => {
        this.asked.push(`${index + 1} at ${revision}`);
        this.onAsked(index);
        const member = this.members[index];
        if (member === undefined) return Promise.reject(new Error('no such member'));
        if (member.refusals-- > 0) return Promise.reject(new Error('required revision is a future revision'));
        return Promise.resolve({ hashRevision: revision, ...member });
      },
    };
  }
}
