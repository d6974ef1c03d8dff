import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger, FakeClock, MemoryEtcd, settle } from '../../../internal/testing/index.ts';
import { withSlot, type Slot, type SlotPorts } from './slot.ts';

const never = new AbortController().signal;
const lost: unknown = expect.objectContaining({ code: 'consensus-slot-lost' });
const intent = { nodeId: 'a', peerUrl: 'https://192.0.2.1:2380' };

/** A node that holds the membership slot until the test ends its work. */
class Holder {
  readonly positions: [place: number, estimateMs: number][] = [];
  readonly held: Promise<unknown>;
  slot: Slot | undefined;
  readonly #done = Promise.withResolvers<void>();

  constructor(ports: SlotPorts, nodeId: string) {
    const onPosition = (position: number, estimateMs: number): void =>
      void this.positions.push([position, estimateMs]);
    this.held = withSlot(ports, { nodeId, onPosition, signal: never }, async (slot) => {
      this.slot = slot;
      await this.#done.promise;
    });
    this.held.catch(() => undefined);
  }

  async done(): Promise<void> {
    this.#done.resolve();
    await this.held;
  }
}

function ports(): SlotPorts & { readonly etcd: MemoryEtcd; readonly clock: FakeClock } {
  return { etcd: new MemoryEtcd(), clock: new FakeClock(), log: createMemoryLogger().log };
}

describe('withSlot()', () => {
  test('runs one node at a time in the order of requests, and reports position and estimate to the waiting nodes', async () => {
    const world = ports();
    const a = new Holder(world, 'a');
    await settle();
    const b = new Holder(world, 'b');
    await settle();
    const c = new Holder(world, 'c');
    await settle();
    expect([a.slot, b.slot, c.slot].map((slot) => slot !== undefined)).toEqual([true, false, false]);
    expect([b.positions.at(-1), c.positions.at(-1)]).toEqual([
      [1, 15_000],
      [2, 30_000],
    ]);
    await a.done();
    await settle();
    expect([b.slot !== undefined, c.slot]).toEqual([true, undefined]);
    expect(c.positions.at(-1)?.[0]).toBe(1);
    await b.done();
    await settle();
    await c.done();
  });

  test('refuses writes of a slot holder whose lease has expired', async () => {
    const world = ports();
    const a = new Holder(world, 'a');
    await settle();
    await a.slot?.writeIntent(intent);
    const b = new Holder(world, 'b');
    await settle();
    // The holder's lease ends without its knowledge, as on a machine that was suspended.
    const [queued] = (await world.etcd.list('slots/control-plane/queue/', { signal: never })).entries;
    await world.etcd.revokeLease(queued?.leaseId ?? 0n, { signal: never });
    await settle();
    expect(b.slot).toBeDefined();
    await expect(a.slot?.writeIntent({ ...intent, memberId: 'ab' })).rejects.toEqual(lost);
    await expect(a.slot?.writeIntent(undefined)).rejects.toEqual(lost);
    expect(await b.slot?.readIntent()).toEqual(intent); // the next holder reads the intent of the previous one, to clean up after it
    await b.slot?.writeIntent({ nodeId: 'b', peerUrl: 'https://192.0.2.2:2380' });
    await b.done();
  });

  test('aborts the work of a node that cannot renew its lease', async () => {
    const world = ports();
    const a = new Holder(world, 'a');
    await settle();
    const [queued] = (await world.etcd.list('slots/control-plane/queue/', { signal: never })).entries;
    await world.etcd.revokeLease(queued?.leaseId ?? 0n, { signal: never });
    await world.clock.advance(4_000);
    expect(a.slot?.signal.aborted).toBe(true);
    expect(a.slot?.signal.reason).toEqual(lost);
    await a.done().catch(() => undefined);
  });
});
