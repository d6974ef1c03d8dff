import { describe, expect, test } from '@jest/globals';
import { put, type CallOptions } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import { FakeClock, MemoryEtcd } from '../../../internal/testing/index.ts';
import { Heartbeats, HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS } from './heartbeats.ts';

const signal = new AbortController().signal;
const NODE = 'n';
const MINUTE_MS = 60_000;
/** etcd checks for expired leases twice a second. */
const EXPIRY_MS = 500;

/** An etcd whose leases expire by the test clock. */
class TimedEtcd extends MemoryEtcd {
  readonly #clock: FakeClock;
  readonly #leases = new Map<bigint, { readonly ttlMs: number; untilMs: number }>();

  constructor(clock: FakeClock) {
    super();
    this.#clock = clock;
  }

  override async grantLease(ttlSeconds: number, options: CallOptions): Promise<bigint> {
    const lease = await super.grantLease(ttlSeconds, options);
    const ttlMs = ttlSeconds * 1000;
    this.#leases.set(lease, { ttlMs, untilMs: this.#clock.nowMs() + ttlMs });
    return lease;
  }

  override async keepLeaseAlive(leaseId: bigint, options: CallOptions): Promise<number | undefined> {
    const left = await super.keepLeaseAlive(leaseId, options);
    const lease = this.#leases.get(leaseId);
    if (left !== undefined && lease !== undefined) lease.untilMs = this.#clock.nowMs() + lease.ttlMs;
    return left;
  }

  /** Expires leases, as etcd does twice a second. */
  expire(): void {
    for (const [leaseId, { untilMs }] of this.#leases) {
      if (untilMs > this.#clock.nowMs()) continue;
      this.#leases.delete(leaseId);
      this.expireLease(leaseId);
    }
  }
}

/** Runs a node for ten minutes with delayed or lost heartbeats, and returns each change of its health. */
async function live(options: {
  readonly minutes: number;
  readonly delayMs: (heartbeat: number) => number;
  readonly isLost?: (heartbeat: number) => boolean;
}) {
  const clock = new FakeClock();
  const etcd = new TimedEtcd(clock);
  etcd.commitNow({ when: [], then: [put(records.node.key(NODE), new Uint8Array(1))] });
  const heartbeats = [new Heartbeats({ etcd, clock }), new Heartbeats({ etcd, clock })];
  const health: string[] = [];
  const endMs = clock.nowMs() + options.minutes * MINUTE_MS;
  let sent = 0;
  let nextMs = clock.nowMs();
  const startRevision = etcd.revision;
  while (clock.nowMs() < endMs) {
    if (clock.nowMs() >= nextMs) {
      if (options.isLost?.(sent) !== true) await heartbeats[sent % 2]?.renew(NODE, signal);
      sent++;
      nextMs += HEARTBEAT_INTERVAL_MS + options.delayMs(sent);
    }
    etcd.expire();
    const now = (await etcd.get(records.heartbeat.key(NODE), { signal })) === undefined ? 'late' : 'beating';
    if (health.at(-1) !== now) health.push(now);
    await clock.advance(EXPIRY_MS);
  }
  return { health, writes: Number(etcd.revision - startRevision), sent };
}

describe('heartbeats', () => {
  test('two heartbeats and the expiry delay of etcd fit into one timeout', () => {
    expect(2 * HEARTBEAT_INTERVAL_MS + 2 * EXPIRY_MS).toBeLessThan(HEARTBEAT_TIMEOUT_MS);
  });

  test.each([
    { name: 'on time', delayMs: () => 0 },
    {
      name: 'each of them is up to two seconds late',
      delayMs: (heartbeat: number) => (heartbeat * 700) % 2000,
    },
    {
      name: 'every second heartbeat is lost',
      delayMs: () => 0,
      isLost: (heartbeat: number) => heartbeat % 2 === 1,
    },
  ])(
    'keep an idle node healthy for ten minutes with a single write, if $name',
    async ({ name: _, ...how }) => {
      const { health, writes, sent: heartbeats } = await live({ minutes: 10, ...how });
      expect(health).toEqual(['beating']);
      expect(writes).toBe(1);
      expect(heartbeats).toBeGreaterThan(80);
    },
  );

  test('a node that starts many heartbeat streams at once, at several curators, causes a single write', async () => {
    const clock = new FakeClock();
    const etcd = new TimedEtcd(clock);
    etcd.commitNow({ when: [], then: [put(records.node.key(NODE), new Uint8Array(1))] });
    const curators = [new Heartbeats({ etcd, clock }), new Heartbeats({ etcd, clock })];
    for (let round = 1; round <= 2; round++) {
      const { revision } = etcd;
      await Promise.all(Array.from({ length: 100 }, async (_, i) => curators[i % 2]?.renew(NODE, signal)));
      expect(etcd.revision).toBe(revision + 1n);
      await clock.advance(HEARTBEAT_TIMEOUT_MS);
      etcd.expire();
    }
  });

  test('of a node without a record are refused', async () => {
    const clock = new FakeClock();
    const heartbeats = new Heartbeats({ etcd: new TimedEtcd(clock), clock });
    await expect(heartbeats.renew(NODE, signal)).rejects.toMatchObject({ code: 'curator-not-member' });
  });

  test('a stopped node times out once, soon after the timeout and not before it', async () => {
    const { health } = await live({
      minutes: 1,
      delayMs: () => 0,
      isLost: (sent) => sent > 2,
    });
    expect(health).toEqual(['beating', 'late']);
  });
});
