import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/index.ts';
import { FairQueue } from './fair-queue.ts';
import { sourcePathOf } from './source-path.ts';

const never = new AbortController().signal;
const crowded: unknown = expect.objectContaining({ code: 'rpc-crowded' });

/** Everybody who asks, by name; who is served, in order; and places to give back. */
class Crowd {
  readonly served: string[] = [];
  readonly refused: string[] = [];
  readonly #places = new Map<string, Disposable>();
  readonly shares: FairQueue;
  readonly clock = new FakeClock();

  constructor(limits: { readonly maxActive: number; readonly maxWaiting: number }) {
    this.shares = new FairQueue({ ...limits, clock: this.clock });
  }

  asks(name: string, address: string, signal = never): Promise<void> {
    return this.shares.acquire(address, signal).then(
      (place) => {
        this.served.push(name);
        this.#places.set(name, place);
      },
      () => void this.refused.push(name),
    );
  }

  async leaves(name: string): Promise<void> {
    this.#places.get(name)?.[Symbol.dispose]();
    await settle();
  }
}

describe('FairShares', () => {
  test('serves so many at once, the others in the order in which they came', async () => {
    const crowd = new Crowd({ maxActive: 2, maxWaiting: 10 });
    for (let i = 0; i < 4; i++) void crowd.asks(`m${i}`, `10.${i}.0.1`);
    await settle();
    expect(crowd.served).toEqual(['m0', 'm1']);
    expect(crowd.shares.waiting).toBe(2);
    await crowd.leaves('m1');
    await crowd.leaves('m1'); // a second time gives nothing away
    expect(crowd.served).toEqual(['m0', 'm1', 'm2']);
    await crowd.leaves('m0');
    await crowd.leaves('m2');
    await crowd.leaves('m3');
    expect(crowd.served).toEqual(['m0', 'm1', 'm2', 'm3']);
    expect(crowd.shares.active).toBe(0);
  });

  test('one address that stalls in all its places leaves the rest to others, at once', async () => {
    const crowd = new Crowd({ maxActive: 8, maxWaiting: 1000 });
    for (let i = 0; i < 100; i++) void crowd.asks('stranger', '198.51.100.7');
    await settle();
    expect(crowd.served.length).toBe(3); // 3/8 of the places
    for (let i = 0; i < 5; i++) void crowd.asks(`m${i}`, `10.0.${i}.1`);
    await settle();
    expect(crowd.served.filter((name) => name !== 'stranger')).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
  });

  test('who holds least is next, before a network whose addresses wait by the hundred', async () => {
    const crowd = new Crowd({ maxActive: 4, maxWaiting: 1000 });
    for (let i = 0; i < 250; i++) void crowd.asks(`stranger-${i}`, `198.51.100.${i}`);
    await settle();
    expect(crowd.served.length).toBe(3);
    void crowd.asks('first', '10.1.0.1');
    void crowd.asks('second', '10.2.0.1');
    await settle();
    expect(crowd.served.at(-1)).toBe('first');
    await crowd.leaves('stranger-0');
    expect(crowd.served.at(-1)).toBe('second');
  });

  test('a full room takes the newcomer and sends away the newest of who has most in it', async () => {
    const crowd = new Crowd({ maxActive: 1, maxWaiting: 4 });
    void crowd.asks('inside', '10.9.0.1');
    for (let i = 0; i < 4; i++) void crowd.asks(`stranger-${i}`, `198.51.100.${i}`);
    await settle();
    void crowd.asks('m', '10.1.0.1');
    await settle();
    expect(crowd.refused).toEqual(['stranger-3']);
    await crowd.leaves('inside');
    await crowd.leaves('stranger-0');
    expect(crowd.served).toContain('m');
    await expect(
      (async () => {
        const all = Array.from({ length: 8 }, () => crowd.shares.acquire('198.51.100.1', never));
        await Promise.all(all);
      })(),
    ).rejects.toEqual(crowded);
  });

  test('who gives up leaves the room and takes no place', async () => {
    const crowd = new Crowd({ maxActive: 1, maxWaiting: 4 });
    void crowd.asks('inside', '10.0.0.1');
    const stop = new AbortController();
    void crowd.asks('impatient', '10.1.0.1', stop.signal);
    void crowd.asks('patient', '10.2.0.1');
    await settle();
    stop.abort(new Error('enough'));
    await settle();
    expect(crowd.refused).toEqual(['impatient']);
    await crowd.leaves('inside');
    expect(crowd.served).toEqual(['inside', 'patient']);
    await expect(crowd.shares.acquire('10.3.0.1', stop.signal)).rejects.toThrow('enough');
  });

  test('estimates from how long places were held', async () => {
    const crowd = new Crowd({ maxActive: 2, maxWaiting: 100 });
    expect(crowd.shares.estimatedWaitMs).toBe(0);
    for (let i = 0; i < 13; i++) void crowd.asks(`m${i}`, `10.${i}.0.1`);
    await settle();
    await crowd.clock.advance(1_000);
    await crowd.leaves('m0');
    expect(crowd.shares.waiting).toBe(10);
    expect(crowd.shares.estimatedWaitMs).toBe(5_000);
  });

  test('10,000 strangers of one network do not keep 200 machines of another one waiting behind them', async () => {
    const crowd = new Crowd({ maxActive: 8, maxWaiting: 512 });
    for (let i = 0; i < 10_000; i++) void crowd.asks('stranger', `203.0.${i % 7}.${i % 251}`);
    await settle();
    for (let i = 0; i < 200; i++) void crowd.asks(`m${i}`, `10.0.0.${i}`);
    await settle();
    expect(crowd.refused.filter((name) => name !== 'stranger')).toEqual([]);
    expect(crowd.shares.waiting).toBe(512);
    for (let i = 0; i < 200; i++) await crowd.leaves(`m${i}`); // the strangers stall in all their places
    expect(crowd.served.filter((name) => name.startsWith('m')).length).toBe(200);
  }, 600_000); // against hanging only
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
  test.each(paths)('$address', ({ address, want }) => {
    expect(sourcePathOf(address)).toEqual(want);
  });
});
