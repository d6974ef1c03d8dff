import { createClient } from '../rpc/index.ts';
import { AccessControl } from './access-control.ts';
import { EtcdConnection, type EtcdOptions } from './connection.ts';
import { EtcdError } from './errors.ts';
import type {
  CallOptions,
  Entry,
  KeyRange,
  KeySpace,
  Listing,
  Transaction,
  TransactionResult,
  WatchEvent,
  WatchOptions,
} from './key-space.ts';
import { LeaseStream } from './lease-stream.ts';
import { Maintenance } from './maintenance.ts';
import { Members } from './members.ts';
import { KV, Lease, type RangeResponse } from './proto/gen/etcdserverpb_pb.js';
import { watchPrefix } from './watch.ts';
import { conditionToWire, entryFromWire, keyBytes, prefixRange, rangeToWire, writeToWire } from './wire.ts';

/** The number of entries per page, so that a page stays far below the maximum message size. */
const PAGE = 500n;
/**
 * The largest number of entries per page when all objects of Kubernetes are read. etcd builds a whole page before the client can refuse it as
 * too large: 500 objects of 1 MiB would take its memory and its processor from all other clients.
 */
const OBJECTS_PAGE = 16n;
/** The size of a page of objects that is aimed at: requests of other clients wait while etcd and this program handle a page. */
const OBJECTS_PAGE_BYTES = 1024 ** 2;
/** The number of keys per page when only keys are listed. Without values, more keys fit into a page. */
const KEYS_PAGE = 5_000n;
/**
 * etcd renews the leases of one stream one after the other, and each renewal waits for the writes in
 * progress. On a single stream, thousands of renewals would be too slow: leases would expire, and creating
 * them again would cause even more writes.
 */
const LEASE_STREAMS = 32;
const KEEPALIVE_MS = 3_000;

/** Which part of a key space to read, and how much of it in one page. */
interface PageOptions {
  /** The number of entries of the first page, and the most of any page. */
  readonly limit: bigint;
  /** The next page has fewer entries if those of the last page were larger together. */
  readonly pageBytes?: number;
  /** Default: the newest one. */
  readonly revision?: bigint;
  readonly keysOnly?: boolean;
  /** Read what this member has, without asking the others. */
  readonly serializable?: boolean;
}

/** A client of one etcd cluster: keys, leases and watches; members, maintenance and access control. */
export class EtcdClient implements KeySpace, Disposable {
  readonly members: Members;
  readonly maintenance: Maintenance;
  readonly access: AccessControl;
  readonly #connection: EtcdConnection;
  readonly #leases: readonly LeaseStream[];

  constructor(options: EtcdOptions) {
    this.#connection = new EtcdConnection(options);
    this.#leases = Array.from({ length: LEASE_STREAMS }, () => new LeaseStream(this.#connection));
    this.members = new Members(this.#connection);
    this.maintenance = new Maintenance(this.#connection);
    this.access = new AccessControl(this.#connection);
  }

  [Symbol.dispose](): void {
    for (const each of this.#leases) each[Symbol.dispose]();
    this.#connection[Symbol.dispose]();
  }

  async get(key: string, options: CallOptions): Promise<Entry | undefined> {
    const { kvs } = await this.#connection.read(`reading ${key} from etcd`, options, (channel, call) =>
      createClient(KV, channel).range({ key: keyBytes(key) }, call),
    );
    return kvs[0] === undefined ? undefined : entryFromWire(kvs[0]);
  }

  list(prefix: string, options: CallOptions): Promise<Listing> {
    return this.#list(prefix, false, options);
  }

  /** Like `list()`, as the member that answers has it: also without a quorum, and possibly an older state. */
  listLocal(prefix: string, options: CallOptions): Promise<Listing> {
    return this.#list(prefix, true, options);
  }

  async #list(prefix: string, serializable: boolean, options: CallOptions): Promise<Listing> {
    const entries: Entry[] = [];
    let revision = 0n;
    for await (const page of this.#pages(prefix, { limit: PAGE, serializable }, options)) {
      if (revision === 0n) revision = page.header?.revision ?? 0n;
      entries.push(...page.kvs.map(entryFromWire));
    }
    return { revision, entries };
  }

  async readTogether(
    ranges: readonly KeyRange[],
    options: CallOptions,
  ): Promise<readonly (readonly Entry[])[]> {
    const names = ranges.map((range) => ('key' in range ? range.key : range.prefix)).join(', ');
    // A transaction without writes needs no consensus: etcd reads it linearizably, like a single range.
    const { responses } = await this.#connection.read(
      `reading ${names} from etcd`,
      options,
      (channel, call) => createClient(KV, channel).txn({ success: ranges.map(rangeToWire) }, call),
    );
    return responses.map(({ response }) =>
      response.case === 'responseRange' ? response.value.kvs.map(entryFromWire) : [],
    );
  }

  /** The keys below a prefix at a revision, in pages. */
  async *keys(prefix: string, revision: bigint, options: CallOptions): AsyncGenerator<readonly string[]> {
    for await (const page of this.#pages(prefix, { limit: KEYS_PAGE, revision, keysOnly: true }, options))
      yield page.kvs.map(({ key }) => Buffer.from(key).toString('utf8'));
  }

  /** The entries below a prefix at a revision, in small pages, because they may be large. */
  async *entries(prefix: string, revision: bigint, options: CallOptions): AsyncGenerator<readonly Entry[]> {
    const range = { limit: OBJECTS_PAGE, pageBytes: OBJECTS_PAGE_BYTES, revision };
    for await (const page of this.#pages(prefix, range, options)) yield page.kvs.map(entryFromWire);
  }

  /** What is below a prefix, in pages that all belong to one revision: the given one, or the newest. */
  async *#pages(
    prefix: string,
    { revision = 0n, keysOnly = false, serializable = false, ...range }: PageOptions,
    options: CallOptions,
  ): AsyncGenerator<RangeResponse> {
    const { key: first, rangeEnd } = prefixRange(prefix);
    let { limit } = range;
    let at = revision;
    for (let key = first; ;) {
      const page = await this.#connection
        .read(`listing ${prefix} in etcd`, options, (channel, call) =>
          createClient(KV, channel).range(
            { key, rangeEnd, limit, revision: at, keysOnly, serializable },
            call,
          ),
        )
        .catch((error: unknown) => {
          if (!isTooLarge(error) || limit === 1n) throw error;
          return undefined;
        });
      if (page === undefined) {
        limit /= 2n;
        continue;
      }
      if (range.pageBytes !== undefined) limit = nextLimit(page, range.limit, range.pageBytes);
      yield page;
      if (at === 0n) at = page.header?.revision ?? 0n;
      const last = page.kvs.at(-1);
      if (!page.more || last === undefined) return;
      key = Uint8Array.from([...last.key, 0]);
    }
  }

  async commit(transaction: Transaction, options: CallOptions): Promise<TransactionResult> {
    const answer = await this.#connection.write('writing to etcd', options, (channel, call) =>
      createClient(KV, channel).txn(
        {
          compare: transaction.when.map(conditionToWire),
          success: transaction.then.map(writeToWire),
          failure: (transaction.otherwiseGet ?? []).map((key) => rangeToWire({ key })),
        },
        call,
      ),
    );
    const revision = answer.header?.revision ?? 0n;
    if (answer.succeeded) return { kind: 'committed', revision };
    const found = answer.responses.flatMap(({ response }) =>
      response.case === 'responseRange' ? response.value.kvs.map(entryFromWire) : [],
    );
    return { kind: 'conflict', revision, found };
  }

  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchEvent> {
    const list = () => this.list(prefix, { signal: options.signal });
    return watchPrefix({ connection: this.#connection, list }, prefix, options);
  }

  async grantLease(ttlSeconds: number, options: CallOptions): Promise<bigint> {
    const { id } = await this.#connection.write('granting etcd lease', options, (channel, call) =>
      createClient(Lease, channel).leaseGrant({ ttlSeconds: BigInt(ttlSeconds) }, call),
    );
    return id;
  }

  keepLeaseAlive(leaseId: bigint, options: CallOptions): Promise<number | undefined> {
    const stream = this.#leases[Number(leaseId % BigInt(LEASE_STREAMS))] ?? this.#leases[0];
    if (stream === undefined)
      return Promise.reject(new RangeError('renewing an etcd lease: the client has no lease streams'));
    return stream.keepAlive(leaseId, options.signal, options.timeoutMs ?? KEEPALIVE_MS);
  }

  async revokeLease(leaseId: bigint, options: CallOptions): Promise<void> {
    await this.#connection.write('revoking etcd lease', options, (channel, call) =>
      createClient(Lease, channel).leaseRevoke({ id: leaseId }, call),
    );
  }

  /** Deletes the history before `revision`. */
  async compact(revision: bigint, options: CallOptions): Promise<void> {
    await this.#connection.write(`compacting etcd at ${revision}`, options, (channel, call) =>
      createClient(KV, channel).compact({ revision, physical: true }, call),
    );
  }
}

/** How many entries as large as those of this page have so many bytes, at least one and at most `most`. */
function nextLimit({ kvs }: RangeResponse, most: bigint, bytes: number): bigint {
  const size = kvs.reduce((sum, { value }) => sum + value.length, 0);
  const fitting = BigInt(Math.floor((bytes * kvs.length) / Math.max(size, 1)));
  return fitting < 1n ? 1n : fitting > most ? most : fitting;
}

/** Whether an answer does not fit into one message of gRPC. */
function isTooLarge(error: unknown): boolean {
  if (!(error instanceof EtcdError) || !(error.cause instanceof Error)) return false;
  return error.cause.message.startsWith('Received message larger than max');
}
