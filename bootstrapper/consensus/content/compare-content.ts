import type { Clock } from '../../../internal/clock/index.ts';
import { judgeContent, type ContentVerdict } from '../../../internal/doctor/index.ts';
import { isAbort } from '../../../internal/errors/index.ts';
import type { ContentHash, EtcdClient, Member } from '../../../internal/etcd/index.ts';

const STATUS_MS = 5_000;
/** Time limit for the hash of one member: 4 GiB, the largest quota, from a disk that reads 40 MB/s. */
const HASH_MS = 120_000;
/** How often a member is asked for its hash at one revision. A member that lags behind the leader has it a moment later. */
const TRIES = 3;
const RETRY_MS = 1_000;
/**
 * How often all members are compared while some of them were compacted at another revision. The API server compacts every
 * five minutes, and not all members do it in the same moment.
 */
const ROUNDS = 3;
const ROUND_PAUSE_MS = 5_000;

/** Client of one member, and the part of it that a comparison needs. */
type HashedMember = Pick<EtcdClient, 'maintenance'>;

/** The members of an etcd cluster, as the control plane of one of them reaches them. */
export interface ComparedEtcd {
  readonly own: HashedMember;
  /** The ID of the own member. */
  readonly ownId: bigint;
  readonly voters: readonly Member[];
  /** Connects to another member, "host:port", as the root user. */
  readonly connect: (endpoint: string) => Promise<HashedMember & Disposable>;
  readonly clock: Clock;
}

interface Answer {
  readonly name: string;
  /** undefined if the member did not answer. */
  readonly content: ContentHash | undefined;
}

/**
 * Compares the content of all voting members by their hashes at one revision (`Maintenance.HashKV`). Equal content has equal
 * hashes if the members were compacted at the same revision: this is the rule of etcd's own corruption checks
 * (etcd/server/etcdserver/corrupt.go).
 *
 * Those checks are not used while a cluster runs. `CompactHashCheck` and `corrupt-check-time` raise the alarm CORRUPT, after
 * which etcd refuses every read and write: one flipped bit on one disk would stop the whole cluster. Here the members are
 * compared, and a person decides.
 *
 * The cost: a member reads its whole database for a hash and applies no write meanwhile, because it holds the lock of its read
 * buffer. So the members are asked one after the other: then a majority can commit all the time.
 */
export async function compareContent(etcd: ComparedEtcd, signal: AbortSignal): Promise<ContentVerdict> {
  for (let round = 1; ; round++) {
    const answers = await hashAll(etcd, signal);
    const [own] = answers;
    const compacted = answers.filter((each) => each.content !== undefined && !isComparable(each, own));
    if (round === ROUNDS || compacted.length === 0)
      return judgeContent(
        answers.map((each) => ({
          name: each.name,
          hash: isComparable(each, own) ? each.content?.hash : undefined,
        })),
      );
    await etcd.clock.sleep(ROUND_PAUSE_MS, signal);
  }
}

function isComparable({ content: one }: Answer, { content: other }: Answer): boolean {
  return one?.compactRevision === other?.compactRevision && one?.hashRevision === other?.hashRevision;
}

/** The hashes of all voting members at the newest revision of the own member, the own one first. */
async function hashAll(
  { own, ownId, voters, connect, clock }: ComparedEtcd,
  signal: AbortSignal,
): Promise<readonly [Answer, ...Answer[]]> {
  const { revision } = await own.maintenance.status({ signal, timeoutMs: STATUS_MS });
  const call = { signal, timeoutMs: HASH_MS };
  const ownName = voters.find(({ id }) => id === ownId)?.name ?? '';
  const answers: [Answer, ...Answer[]] = [
    { name: ownName, content: await own.maintenance.hash(revision, call) },
  ];
  for (const { id, name, clientUrls } of voters.filter((each) => each.id !== ownId)) {
    const [url] = clientUrls;
    const ask = async (): Promise<ContentHash> => {
      using client = await connect(new URL(url ?? '').host);
      return await client.maintenance.hash(revision, call);
    };
    // A member that never started has no name and no URL.
    const content = url === undefined ? undefined : await triedAgain(ask, clock, signal);
    answers.push({ name: name || id.toString(16), content });
  }
  return answers;
}

/** The answer of a member that may lag behind, or be down: undefined if each try failed. */
async function triedAgain<T>(
  ask: () => Promise<T>,
  clock: Clock,
  signal: AbortSignal,
): Promise<T | undefined> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      if (tries === TRIES) return undefined;
    }
    await clock.sleep(RETRY_MS, signal);
  }
}
