import { afterEach, describe, expect, test } from '@jest/globals';
import { createMemoryLogger, FakeClock, settle } from '../../internal/testing/index.ts';
import type { Endpoint } from './config.ts';
import { HealthChecks, type UpstreamProbe } from './health-checks.ts';
import { upstreamKey } from './upstreams.ts';

const [a, b, c] = ['a', 'b', 'c'].map((host) => ({ host, port: 1 })) as [Endpoint, Endpoint, Endpoint];
const open: Disposable[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each[Symbol.dispose]();
});

/**
 * Fake probe of upstreams that answer at once or as a test says. An upstream that hangs answers all pending
 * checks when it resumes.
 */
class StubProbe implements UpstreamProbe {
  readonly asked: string[] = [];
  readonly forgotten: string[] = [];
  readonly unready = new Map<string, string>();
  readonly #hung = new Map<string, PromiseWithResolvers<void>>();

  hang(...hosts: readonly string[]): void {
    for (const host of hosts) this.#hang(host);
  }

  goOn(...hosts: readonly string[]): void {
    for (const host of hosts) {
      this.#hung.get(host)?.resolve();
      this.#hung.delete(host);
    }
  }

  async check({ host }: Endpoint): Promise<string | undefined> {
    this.asked.push(host);
    await this.#hung.get(host)?.promise;
    return this.unready.get(host);
  }

  disconnect({ host }: Endpoint): void {
    this.forgotten.push(host);
    if (!this.#hung.has(host)) return;
    this.#hung.get(host)?.reject(new Error('forgotten'));
    this.#hang(host);
  }

  #hang(host: string): void {
    const hung = Promise.withResolvers<void>();
    hung.promise.catch(() => undefined); // handles the rejection if no check is pending
    this.#hung.set(host, hung);
  }

  count(host: string): number {
    return this.asked.filter((each) => each === host).length;
  }
}

function create({ used = [a], upstreams = [a, b, c] as readonly Endpoint[], random = 1 } = {}) {
  const clock = new FakeClock();
  const probe = new StubProbe();
  const inUse = new Set(used.map(upstreamKey));
  const cuts: string[] = [];
  const { log, records } = createMemoryLogger();
  const checks = new HealthChecks({
    ...{ probe, clock, log },
    random: () => random,
    isUsed: (upstream) => inUse.has(upstreamKey(upstream)),
    cut: (upstream) => {
      cuts.push(upstream.host);
      inUse.delete(upstreamKey(upstream));
    },
  });
  open.push(checks);
  checks.replace(upstreams);
  return { clock, probe, inUse, cuts, checks, records };
}

describe('HealthChecks', () => {
  test('closes the connections of a hung upstream within 5 s', async () => {
    const { clock, probe, cuts, checks } = create();
    await settle();
    expect([a, b, c].map((each) => checks.verdictOf(each))).toEqual(['healthy', 'healthy', 'healthy']);
    probe.hang('a');
    await clock.advance(2_200 + 1_200 + 1_199); // the longest pause between checks and the timeouts of two requests, less 1 ms
    expect(cuts).toEqual([]);
    await clock.advance(1);
    expect(cuts).toEqual(['a']);
    expect(checks.verdictOf(a)).toBe('silent');
    expect(checks.states()[0]).toMatchObject({ verdict: 'silent', why: 'no answer within 1.2s' });
  });

  test('checks a second time over a new connection before it marks an upstream as silent', async () => {
    const { clock, probe, cuts, checks } = create();
    await settle();
    probe.hang('a');
    await clock.advance(2_200 + 1_199);
    expect(probe.forgotten).toEqual([]);
    await clock.advance(1);
    expect(probe.forgotten).toContain('a');
    expect([cuts, checks.verdictOf(a)]).toEqual([[], 'healthy']);
    await clock.advance(1_200);
    expect([cuts, checks.verdictOf(a)]).toEqual([['a'], 'silent']);
    probe.goOn('a');
    await clock.advance(2_200);
    expect(checks.verdictOf(a)).toBe('healthy');
  });

  test('closes no connections after one check without an answer', async () => {
    const { clock, probe, cuts, checks } = create();
    await settle();
    probe.hang('a');
    await clock.advance(2_200 + 1_200);
    expect(checks.verdictOf(a)).toBe('healthy');
    probe.goOn('a');
    await clock.advance(10_000);
    expect([cuts, checks.verdictOf(a)]).toEqual([[], 'healthy']);
  });

  test('keeps connections while no other upstream is healthy', async () => {
    const { clock, probe, cuts, checks } = create();
    await settle();
    probe.hang('a', 'b', 'c');
    await clock.advance(30_000);
    expect(cuts).toEqual([]);
    expect([a, b, c].map((each) => checks.verdictOf(each))).toEqual(['silent', 'silent', 'silent']);
    probe.goOn('c');
    await clock.advance(5_000);
    expect(cuts).toEqual(['a']);
  });

  test('checks the other upstreams as soon as one upstream does not answer', async () => {
    const { clock, probe } = create();
    await settle();
    probe.hang('a');
    const before = probe.count('b');
    await clock.advance(2_200 + 1_199);
    expect(probe.count('b')).toBe(before);
    await clock.advance(1);
    expect(probe.count('b')).toBe(before + 1);
  });

  test('closes the connections of an unready upstream after 5 s', async () => {
    const { clock, probe, cuts, checks, records } = create();
    await settle();
    probe.unready.set('a', 'readyz answered 500: [-]etcd failed');
    await clock.advance(2_200 + 4_999);
    expect([cuts, checks.verdictOf(a)]).toEqual([[], 'unready']);
    await clock.advance(2_200);
    expect(cuts).toEqual(['a']);
    const said = ['server unhealthy', 'closing the connections to an unhealthy server'];
    expect(records.map(({ message }) => message)).toEqual(said); // logged once, however long the upstream is unready
    probe.unready.delete('a');
    await clock.advance(2_200);
    expect(checks.verdictOf(a)).toBe('healthy');
  });

  test('closes no connections when all upstreams were silent and answer again', async () => {
    const { clock, probe, cuts, checks } = create({ used: [a, b] });
    await settle();
    probe.hang('a', 'b', 'c');
    await clock.advance(8_000);
    probe.goOn('a', 'b', 'c');
    await clock.advance(10_000);
    expect(cuts).toEqual([]);
    expect([a, b, c].map((each) => checks.verdictOf(each))).toEqual(['healthy', 'healthy', 'healthy']);
  });

  test('checks an upstream without connections every 10 s, and at once when it gets its first connection', async () => {
    const { clock, probe, checks, inUse } = create({ used: [], upstreams: [a], random: 0 });
    await settle();
    await clock.advance(8_999);
    expect(probe.count('a')).toBe(1);
    await clock.advance(1);
    expect(probe.count('a')).toBe(2);
    inUse.add(upstreamKey(a));
    checks.used(a);
    await settle();
    expect(probe.count('a')).toBe(3);
    await clock.advance(1_800);
    expect(probe.count('a')).toBe(4);
  });

  test('varies the pauses between checks by 10 %', async () => {
    for (const [random, ms] of [
      [0, 1_800],
      [1, 2_200],
    ] as const) {
      const { clock, probe } = create({ upstreams: [a], random });
      await settle();
      await clock.advance(ms - 1);
      expect(probe.count('a')).toBe(1);
      await clock.advance(1);
      expect(probe.count('a')).toBe(2);
    }
  });

  test('checks a removed upstream while it has connections', async () => {
    const { clock, probe, cuts, inUse, checks } = create();
    await settle();
    checks.replace([b]);
    await clock.advance(5_000);
    expect(probe.count('a')).toBeGreaterThan(3);
    probe.hang('a');
    await clock.advance(4_600);
    expect(cuts).toEqual(['a']);
    await clock.advance(5_000);
    const asked = probe.count('a');
    await clock.advance(60_000);
    expect([probe.count('a'), checks.states().length, inUse.size]).toEqual([asked, 1, 0]);
  });

  test('ignores a check that was running while this process was stopped', async () => {
    const { clock, probe, cuts, checks } = create({ used: [], upstreams: [a] });
    await settle();
    probe.hang('a');
    // When a stopped process continues, all its timers are due at once.
    const stopped = clock.monotonicMs.bind(clock);
    let stoodStillMs = 0;
    clock.monotonicMs = () => stopped() + stoodStillMs;
    await clock.advance(11_000);
    stoodStillMs = 60_000;
    await clock.advance(1_200 + 1_200);
    expect([cuts, checks.verdictOf(a)]).toEqual([[], 'healthy']);
  });
});
