import { expect, test } from '@jest/globals';
import { join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';

const program = join(import.meta.dirname, 'fake-narrow-path.mjs');
const [NEAR, FAR, PORT] = ['198.18.251.2', '198.18.251.6', '10256'];

/**
 * Two machines, each in a network namespace of its own, with a router between them, in namespaces that end with this
 * command. The router drops long packets and tells nobody, as a tunnel does whose ICMP messages are filtered.
 */
const NETWORK = `
set -eu
mount -t tmpfs tmpfs /run
mkdir /run/netns
for side in near far; do
  ip netns add $side
  ip link add dev $side type veth peer name eth0 netns $side
  ip link set $side up
  ip -n $side link set lo up
  ip -n $side link set eth0 up
done
ip address add 198.18.251.1/30 dev near
ip address add 198.18.251.5/30 dev far
ip -n near address add ${NEAR}/30 dev eth0
ip -n far address add ${FAR}/30 dev eth0
ip -n near route add default via 198.18.251.1
ip -n far route add default via 198.18.251.5
echo 1 > /proc/sys/net/ipv4/ip_forward
nft add table ip narrow
nft add chain ip narrow forward '{ type filter hook forward priority 0; }'
narrow() { nft add rule ip narrow forward ip daddr $1 meta length gt 1300 drop; }
widen() { nft flush chain ip narrow forward; }
try() { ip netns exec near "$@" try ${FAR} ${PORT}; }
serve() {
  ip netns exec far "$@" serve ${FAR} ${PORT} > /run/serves &
  server=$!
  until grep -q serves /run/serves; do sleep 0.05; done
}
`;

/** Runs these commands as the router; each \`try\` prints a verdict. */
async function verdicts(commands: string): Promise<readonly string[]> {
  const run = await new ExecaRunner({ path: process.env['PATH'] ?? '' }).run({
    argv: [
      'unshare',
      ...['--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', NETWORK + commands, 'sh'],
      ...[process.execPath, '--no-warnings', program],
    ],
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  return run.stdout.trim().split('\n');
}

test('full-size packets arrive on a path that carries them, and are lost on one that drops them silently', async () => {
  const steps = `serve "$@"; try "$@"; narrow ${FAR}; try "$@"; widen; try "$@"; kill $server`;
  expect(await verdicts(steps)).toEqual(['arrive', 'lost', 'arrive']);
});

test('a path is not judged while nobody serves at its end, or while a firewall drops every packet', async () => {
  const blocked = 'nft add rule ip narrow forward tcp dport 10256 drop';
  const steps = `try "$@"; serve "$@"; ${blocked}; try "$@"; kill $server`;
  expect(await verdicts(steps)).toEqual(['unknown', 'unknown']);
});
