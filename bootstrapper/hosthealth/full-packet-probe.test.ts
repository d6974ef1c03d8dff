import { describe, expect, test } from '@jest/globals';
import { FakeClock } from '../../internal/testing/index.ts';
import { FullPacketProbe } from './full-packet-probe.ts';
import type { PacketVerdict } from './full-packets.ts';

const PEERS = ['10.244.1.0', '10.244.2.0', '10.244.3.0'];
const [FIRST, SECOND] = PEERS as [string, string, string];

function createProbe() {
  const clock = new FakeClock();
  const verdicts = new Map<string, PacketVerdict>();
  const tried: string[] = [];
  const stop = new AbortController();
  const probe = new FullPacketProbe({
    clock,
    tryFullPackets: async (host) => (tried.push(host), verdicts.get(host) ?? 'arrive'),
  });
  /** Heartbeats every 5 s for this time. */
  const watch = async (seconds: number, peers: readonly string[] = PEERS) => {
    for (let at = 0; at < seconds; at += 5) {
      probe.probe(peers, stop.signal);
      await clock.advance(5_000);
    }
    return probe.found;
  };
  return { probe, verdicts, tried, stop, watch };
}

describe('FullPacketProbe.probe()', () => {
  test('tries one peer a minute while full-size packets arrive, one after the other', async () => {
    const { tried, watch } = createProbe();
    expect(await watch(240)).toEqual({ lost: [], judged: 3 });
    expect(tried).toEqual([...PEERS, FIRST]);
  });

  test('reports a peer whose full-size packets are lost twice in a row, until they arrive', async () => {
    const { verdicts, tried, watch } = createProbe();
    verdicts.set(FIRST, 'lost');
    expect(await watch(20)).toEqual({ lost: [], judged: 0 });
    expect(await watch(20)).toEqual({ lost: [FIRST], judged: 2 });
    expect(tried).toEqual([FIRST, FIRST, SECOND]);
    verdicts.delete(FIRST);
    expect(await watch(20)).toEqual({ lost: [], judged: 3 });
  });

  test.each(['arrive', 'unknown'] as const)(
    'does not report a peer whose full-size packets are lost twice, with the verdict "%s" in between',
    async (between) => {
      const { probe, verdicts, watch } = createProbe();
      for (let round = 0; round < 3; round++) {
        verdicts.set(FIRST, 'lost');
        await watch(5, [FIRST]);
        verdicts.set(FIRST, between);
        await watch(75, [FIRST]);
        expect(probe.found.lost).toEqual([]);
      }
    },
  );

  test('does not judge a peer without kube-proxy, and forgets what was known about it', async () => {
    const { verdicts, watch } = createProbe();
    verdicts.set(FIRST, 'lost');
    expect((await watch(60, [FIRST])).lost).toEqual([FIRST]);
    verdicts.set(FIRST, 'unknown');
    expect(await watch(20, [FIRST])).toEqual({ lost: [], judged: 0 });
  });

  test('forgets a peer that does not answer or is gone', async () => {
    const { verdicts, watch } = createProbe();
    verdicts.set(FIRST, 'lost');
    expect((await watch(60)).lost).toEqual([FIRST]);
    expect((await watch(5, [SECOND])).lost).toEqual([]);
  });

  test('starts no second probe while one runs, and learns nothing from one that was aborted', async () => {
    const clock = new FakeClock();
    const ended = Promise.withResolvers<PacketVerdict>();
    let started = 0;
    const probe = new FullPacketProbe({ clock, tryFullPackets: () => (started++, ended.promise) });
    const stop = new AbortController();
    for (let at = 0; at < 5; at++) {
      probe.probe([FIRST], stop.signal);
      await clock.advance(60_000);
    }
    expect(started).toBe(1);
    stop.abort();
    ended.resolve('arrive');
    await clock.advance(1);
    expect(probe.found).toEqual({ lost: [], judged: 0 });
    probe.probe([FIRST], new AbortController().signal);
    await clock.advance(1);
    expect([started, probe.found.judged]).toEqual([2, 1]);
  });
});
