import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/index.ts';
import { FairQueue } from './fair-queue.ts';
import { relayedPathOf, sourcePathOf, type SourcePath } from './source-path.ts';

const never = new AbortController().signal;
const crowded: unknown = expect.objectContaining({ code: 'rpc-crowded' });

/** Callers by name, the order in which they got slots, and the slots that they release. */
class Callers {
  readonly served: string[] = [];
  readonly refused: string[] = [];
  readonly #slots = new Map<string, Disposable>();
  readonly queue: FairQueue;
  readonly clock = new FakeClock();

  constructor(limits: { readonly maxActive: number; readonly maxWaiting: number }) {
    this.queue = new FairQueue({ ...limits, clock: this.clock });
  }

  acquire(name: string, address: string | SourcePath, signal = never): Promise<void> {
    return this.queue.acquire(address, signal).then(
      (slot) => {
        this.served.push(name);
        this.#slots.set(name, slot);
      },
      () => void this.refused.push(name),
    );
  }

  async release(name: string): Promise<void> {
    this.#slots.get(name)?.[Symbol.dispose]();
    await settle();
  }
}

describe('FairQueue', () => {
  test('serves up to the limit at once, the others in order of arrival', async () => {
    const callers = new Callers({ maxActive: 2, maxWaiting: 10 });
    for (let i = 0; i < 4; i++) void callers.acquire(`m${i}`, `10.${i}.0.1`);
    await settle();
    expect(callers.served).toEqual(['m0', 'm1']);
    expect(callers.queue.waiting).toBe(2);
    await callers.release('m1');
    await callers.release('m1'); // a second release must not free another slot
    expect(callers.served).toEqual(['m0', 'm1', 'm2']);
    await callers.release('m0');
    await callers.release('m2');
    await callers.release('m3');
    expect(callers.served).toEqual(['m0', 'm1', 'm2', 'm3']);
    expect(callers.queue.active).toBe(0);
  });

  test('divides the share of a relay among its clients, however many clients one of them pretends to be', async () => {
    const callers = new Callers({ maxActive: 32, maxWaiting: 1000 });
    const relay = '192.0.2.1';
    const behind = (name: string, client: string) => void callers.acquire(name, relayedPathOf(relay, client));
    for (let i = 0; i < 100; i++) behind('stalling', '203.0.113.9');
    await settle();
    expect(callers.served).toHaveLength(6); // half of the relay's 12 slots
    behind('honest', '198.51.100.7');
    await settle();
    expect(callers.served.at(-1)).toBe('honest');
    for (let i = 0; i < 100; i++) behind('liar', `10.${i}.0.1`);
    await settle();
    expect(callers.served).toHaveLength(12);
    for (let i = 0; i < 20; i++) void callers.acquire('other', `10.${i}.0.1`);
    await settle();
    expect(callers.served).toHaveLength(32);
  });

  test('leaves slots to others when one address stalls in all of its own slots', async () => {
    const callers = new Callers({ maxActive: 8, maxWaiting: 1000 });
    for (let i = 0; i < 100; i++) void callers.acquire('stranger', '198.51.100.7');
    await settle();
    expect(callers.served.length).toBe(3); // 3/8 of the slots
    for (let i = 0; i < 5; i++) void callers.acquire(`m${i}`, `10.0.${i}.1`);
    await settle();
    expect(callers.served.filter((name) => name !== 'stranger')).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
  });

  test('serves the smallest source before a network with hundreds of waiting addresses', async () => {
    const callers = new Callers({ maxActive: 4, maxWaiting: 1000 });
    for (let i = 0; i < 250; i++) void callers.acquire(`other-${i}`, `198.51.100.${i}`);
    await settle();
    expect(callers.served.length).toBe(3);
    void callers.acquire('first', '10.1.0.1');
    void callers.acquire('second', '10.2.0.1');
    await settle();
    expect(callers.served.at(-1)).toBe('first');
    await callers.release('other-0');
    expect(callers.served.at(-1)).toBe('second');
  });

  test('refuses the newest caller of the largest source when the queue is full', async () => {
    const callers = new Callers({ maxActive: 1, maxWaiting: 4 });
    void callers.acquire('inside', '10.9.0.1');
    for (let i = 0; i < 4; i++) void callers.acquire(`other-${i}`, `198.51.100.${i}`);
    await settle();
    void callers.acquire('m', '10.1.0.1');
    await settle();
    expect(callers.refused).toEqual(['other-3']);
    await callers.release('inside');
    await callers.release('other-0');
    expect(callers.served).toContain('m');
    await expect(
      (async () => {
        const all = Array.from({ length: 8 }, () => callers.queue.acquire('198.51.100.1', never));
        await Promise.all(all);
      })(),
    ).rejects.toEqual(crowded);
  });

  test('removes a caller that gives up, and gives it no slot', async () => {
    const callers = new Callers({ maxActive: 1, maxWaiting: 4 });
    void callers.acquire('inside', '10.0.0.1');
    const stop = new AbortController();
    void callers.acquire('impatient', '10.1.0.1', stop.signal);
    void callers.acquire('patient', '10.2.0.1');
    await settle();
    stop.abort(new Error('enough'));
    await settle();
    expect(callers.refused).toEqual(['impatient']);
    await callers.release('inside');
    expect(callers.served).toEqual(['inside', 'patient']);
    await expect(callers.queue.acquire('10.3.0.1', stop.signal)).rejects.toThrow('enough');
  });

  test('estimates the wait from how long slots were held', async () => {
    const callers = new Callers({ maxActive: 2, maxWaiting: 100 });
    expect(callers.queue.estimatedWaitMs).toBe(0);
    for (let i = 0; i < 13; i++) void callers.acquire(`m${i}`, `10.${i}.0.1`);
    await settle();
    await callers.clock.advance(1_000);
    await callers.release('m0');
    expect(callers.queue.waiting).toBe(10);
    expect(callers.queue.estimatedWaitMs).toBe(5_000);
  });

  test('does not keep 200 machines waiting behind 10,000 clients of another network', async () => {
    const callers = new Callers({ maxActive: 8, maxWaiting: 512 });
    for (let i = 0; i < 10_000; i++) void callers.acquire('stranger', `203.0.${i % 7}.${i % 251}`);
    await settle();
    for (let i = 0; i < 200; i++) void callers.acquire(`m${i}`, `10.0.0.${i}`);
    await settle();
    expect(callers.refused.filter((name) => name !== 'stranger')).toEqual([]);
    expect(callers.queue.waiting).toBe(512);
    // The clients of the other network stall in all their slots.
    for (let i = 0; i < 200; i++) await callers.release(`m${i}`);
    expect(callers.served.filter((name) => name.startsWith('m')).length).toBe(200);
  }, 600_000); // long time limit, because it only guards against a hanging test
});

describe('sourcePathOf', () => {
  const paths = [
    { address: '192.0.2.7', want: ['192.0/16', '192.0.2/24', '192.0.2.7'] },
    { address: '::ffff:192.0.2.7', want: ['192.0/16', '192.0.2/24', '192.0.2.7'] },
    { address: '2001:DB8:1:2:3::4', want: ['2001:db8/32', '2001:db8:1/48', '2001:db8:1:2/64'] },
    { address: '2001:db8::1', want: ['2001:db8/32', '2001:db8:0/48', '2001:db8:0:0/64'] },
    { address: 'fe80::1%eth0', want: ['fe80:0/32', 'fe80:0:0/48', 'fe80:0:0:0/64'] },
    { address: '::1', want: ['0:0/32', '0:0:0/48', '0:0:0:0/64'] },
    { address: '', want: ['/16', '/24', ''] },
  ];
  test.each(paths)(
    'sourcePathOf() lists the networks of the address "$address", the largest first',
    ({ address, want }) => {
      expect(sourcePathOf(address)).toEqual(want);
    },
  );
});
