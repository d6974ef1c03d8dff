import { beforeAll, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';
import type { PodNetworkHealth } from './pod-network-probe.ts';

const PROGRAM = join(import.meta.dirname, 'fake-delayed-path.mjs');
const WIRE = join(import.meta.dirname, 'fake-delayed-path.c');
const [OWN, PEER] = ['10.244.1.0', '10.244.2.0'];
/** Of the wire, in each direction. */
const DELAY_MS = 60;
/** What a busy machine may add. */
const EXTRA_MS = 80;

/**
 * Two nodes, each in a network namespace of its own, in which a packet to the other one takes as long as the wire says. No
 * program listens on the peer: its kernel answers.
 */
const NETWORK = `
set -eu
mount -t tmpfs tmpfs /run
mkdir /run/netns
gcc -O2 -Wall -Werror -o /run/wire ${WIRE}
for side in near far; do
  ip netns add $side
  ip link add dev $side type veth peer name flannel.1 netns $side
  ip link set $side up
  ip -n $side link set lo up
  ip -n $side link set flannel.1 up
done
ip -n near address add ${OWN}/32 dev flannel.1
ip -n far address add ${PEER}/32 dev flannel.1
ip -n near route add 10.244.2.0/24 via ${PEER} dev flannel.1 onlink
ip -n far route add 10.244.1.0/24 via ${OWN} dev flannel.1 onlink
probe() {
  /run/wire near far $1 > /run/delays &
  wire=$!
  until grep -q delays /run/delays; do sleep 0.05; done
  ip netns exec near "$NODE" --no-warnings ${PROGRAM} ${OWN}
  kill $wire
}
`;

/** What the probe finds without a delay, with one, and with one while a firewall closes the first port that it tries. */
const STEPS = `
probe 0
probe ${DELAY_MS}
ip netns exec far nft add table ip closed
ip netns exec far nft add chain ip closed input '{ type filter hook input priority 0; }'
ip netns exec far nft add rule ip closed input tcp dport 10250 drop
probe ${DELAY_MS}
`;

let found: readonly PodNetworkHealth[] = [];

beforeAll(async () => {
  const run = await new ExecaRunner({ path: process.env['PATH'] ?? '' }).run({
    argv: ['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', NETWORK + STEPS],
    env: { NODE: process.execPath },
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  found = run.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as PodNetworkHealth);
});

const tripOf = (step: number): number | undefined => {
  const [first] = found[step]?.roundTrips ?? [];
  expect(first?.address).toBe(PEER);
  return first?.ms;
};

test('the probe of the network of pods measures a path without a delay', () => {
  expect(tripOf(0)).toBeLessThanOrEqual(EXTRA_MS);
});

test.each([
  { step: 1, name: 'with a delay' },
  { step: 2, name: 'with a delay, and does not count the time of a port that a firewall closes' },
])('the probe of the network of pods measures a path $name', ({ step }) => {
  expect(tripOf(step)).toBeGreaterThanOrEqual(2 * DELAY_MS);
  expect(tripOf(step)).toBeLessThanOrEqual(2 * DELAY_MS + EXTRA_MS);
});
