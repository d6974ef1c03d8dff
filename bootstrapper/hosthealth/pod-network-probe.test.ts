import { describe, expect, test } from '@jest/globals';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { hasPodNetwork, PodNetworkProbe } from './pod-network-probe.ts';

const OWN = '10.244.3.0';
const signal = new AbortController().signal;

const hex = (address: string): string =>
  Buffer.from(address.split('.').map(Number)).reverse().toString('hex').toUpperCase();
const routes = (...peers: string[]): string =>
  [
    'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
    'eth0\t00000000\t0100C6C6\t0003\t0\t0\t0\t00000000\t0\t0\t0',
    'cni0\t0003F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    ...peers.map((each) => `flannel.1\t${hex(each)}\t${hex(each)}\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0`),
  ].join('\n');
/** A line of /proc/net/ipv6_route. */
const ipv6Route = (to: string, gateway: string, name: string): string =>
  `${to} 40 ${'0'.repeat(32)} 00 ${gateway} 00000400 00000001 00000000 00000003 ${name.padStart(8)}`;
const peersOf = (count: number): string[] =>
  Array.from({ length: count }, (_, at) => `10.244.${at}.0`).filter((each) => each !== OWN);

async function createProbe(peers = peersOf(6)) {
  const files = new MemoryFiles();
  await files.makeDirectory('/proc/net');
  const place = (...now: string[]) => files.writeAtomic('/proc/net/route', routes(...now));
  await place(...peers);
  const clock = new FakeClock();
  const silent = new Set<string>();
  const probed: string[] = [];
  const tried: string[] = [];
  const narrow = new Set<string>();
  const slow = new Map<string, () => number>();
  const own = { address: OWN as string | undefined };
  const probe = new PodNetworkProbe({
    ...{ files, clock, ownAddress: () => own.address },
    answerTimeMs: async (host) => (
      probed.push(host),
      silent.has(host) ? undefined : (slow.get(host)?.() ?? 0.3)
    ),
    tryFullPackets: async (host) => (tried.push(host), narrow.has(host) ? 'lost' : 'arrive'),
  });
  /** The peers that are reported at each of these heartbeats. */
  const watch = async (heartbeats: number) => {
    const seen: (readonly string[] | undefined)[] = [];
    for (let at = 0; at < heartbeats; at++) {
      await clock.advance(5_000);
      seen.push((await probe.check(signal))?.unreachable);
    }
    return seen;
  };
  return { files, clock, silent, probed, tried, narrow, slow, own, place, watch, probe };
}

describe('PodNetworkProbe.check()', () => {
  test('probes one peer every 10 s while all answer, one after the other', async () => {
    const { probed, watch } = await createProbe();
    expect(await watch(12)).toEqual(Array(12).fill([]));
    expect(probed).toEqual(['4', '5', '0', '1', '2', '4'].map((each) => `10.244.${each}.0`));
  });

  test('reports peers that do not answer for 20 s, until they answer again', async () => {
    const { silent, watch } = await createProbe();
    for (const peer of ['10.244.4.0', '10.244.5.0']) silent.add(peer);
    const seen = await watch(8);
    expect(seen.slice(0, 4)).toEqual([[], [], [], []]);
    expect(seen[4]).toEqual(['10.244.4.0']);
    expect(seen.at(-1)).toEqual(['10.244.4.0', '10.244.5.0']);
    silent.clear();
    expect(await watch(1)).toEqual([[]]);
  });

  test('does not report a peer that misses one probe', async () => {
    const { silent, watch } = await createProbe();
    silent.add('10.244.4.0');
    await watch(1);
    silent.clear();
    expect(await watch(8)).toEqual(Array(8).fill([]));
  });

  test('forgets a peer whose route is gone', async () => {
    const { silent, place, watch } = await createProbe();
    silent.add('10.244.4.0');
    expect((await watch(6)).at(-1)).toEqual(['10.244.4.0']);
    await place(...peersOf(6).filter((each) => each !== '10.244.4.0'));
    expect(await watch(1)).toEqual([[]]);
  });

  test('probes only eight peers of a large cluster, and each node is probed by eight', async () => {
    const all = Array.from({ length: 200 }, (_, at) => `10.244.${at}.0`);
    const counts = new Map<string, number>();
    for (const each of all.slice(0, 50)) {
      const { own, probed, watch } = await createProbe(all);
      own.address = each;
      await watch(40);
      for (const peer of new Set(probed)) counts.set(peer, (counts.get(peer) ?? 0) + 1);
      expect(new Set(probed).size).toBe(8);
    }
    expect(counts.get('10.244.20.0')).toBe(8);
  });

  test('probes a new node within a minute', async () => {
    const { probed, place, watch } = await createProbe(['10.244.4.0']);
    await watch(2);
    await place('10.244.4.0', '10.244.5.0');
    await watch(14);
    expect(probed).toContain('10.244.5.0');
  });

  test('finds the IPv6 neighbours of a node with an IPv6 address, in the order of their numbers', async () => {
    const { files, own, probed, watch } = await createProbe();
    own.address = 'fd00:0:0:3::';
    await files.writeAtomic(
      '/proc/net/ipv6_route',
      [
        ipv6Route('fd000000000000040000000000000000', 'fd000000000000040000000000000000', 'flannel-v6.1'),
        ipv6Route('fd000000000000100000000000000000', 'fd000000000000100000000000000000', 'flannel-v6.1'),
        ipv6Route('fd000000000000030000000000000000', '0'.repeat(32), 'flannel-v6.1'),
        ipv6Route('0'.repeat(32), '200100020000000700000000000000fe', 'eth0'),
      ].join('\n'),
    );
    await watch(4);
    expect(probed).toEqual(['fd00:0:0:4::', 'fd00:0:0:10::']);
  });

  test('reports peers to which full-size packets do not pass, and tries none that does not answer', async () => {
    const { narrow, silent, tried, probe, watch } = await createProbe(['10.244.4.0', '10.244.5.0']);
    narrow.add('10.244.4.0');
    silent.add('10.244.5.0');
    await watch(8);
    expect((await probe.check(signal))?.fullPackets).toEqual({ lost: ['10.244.4.0'], judged: 1 });
    expect(new Set(tried)).toEqual(new Set(['10.244.4.0']));
  });

  test('reports the usual round trip to each peer after five answers, the nearest address first', async () => {
    const { slow, probe, watch } = await createProbe(['10.244.10.0', '10.244.4.0']);
    slow.set('10.244.10.0', () => 40);
    await watch(16);
    expect(probe.found?.roundTrips).toEqual([]);
    await watch(4);
    expect(probe.found?.roundTrips).toEqual([
      { address: '10.244.4.0', ms: 5 },
      { address: '10.244.10.0', ms: 40 },
    ]);
  });

  test('reports no round trip to a peer that is unreachable, and forgets one whose route is gone', async () => {
    const { silent, place, probe, watch } = await createProbe(['10.244.4.0', '10.244.5.0']);
    const measured = () => probe.found?.roundTrips.map(({ address }) => address);
    await watch(20);
    expect(measured()).toEqual(['10.244.4.0', '10.244.5.0']);
    silent.add('10.244.4.0');
    await watch(4);
    expect([measured(), probe.found?.unreachable]).toEqual([['10.244.4.0', '10.244.5.0'], []]);
    await watch(4);
    expect([measured(), probe.found?.unreachable]).toEqual([['10.244.5.0'], ['10.244.4.0']]);
    silent.clear();
    await watch(2);
    expect(measured()).toEqual(['10.244.4.0', '10.244.5.0']);
    await place('10.244.5.0');
    await watch(14);
    expect(measured()).toEqual(['10.244.5.0']);
  });

  test('tells its own address, and nothing without the interface of the chart', async () => {
    const { own, silent, probe, watch } = await createProbe();
    const fullPackets = { lost: [], judged: 0 };
    const health = { address: OWN, unreachable: [], fullPackets, roundTrips: [] };
    expect(await probe.check(signal)).toEqual(health);
    expect(probe.found).toEqual(health);
    silent.add('10.244.4.0');
    await watch(8);
    own.address = undefined;
    expect(await watch(1)).toEqual([undefined]);
    own.address = OWN;
    expect(await watch(1)).toEqual([[]]);
  });
});

test('hasPodNetwork() is true for a network that was probed, and always with WireGuard, whose interface flannel removes', async () => {
  const { probe } = await createProbe();
  const probed = await probe.check(signal);
  expect(hasPodNetwork(probed, undefined)).toBe(true);
  expect(hasPodNetwork(undefined, 'wireguard')).toBe(true);
  expect(hasPodNetwork(undefined, undefined)).toBe(false);
});
