import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { VXLAN_PORT, WIREGUARD_PORTS } from '../../internal/endpoint/index.ts';
import { programOfBundle } from '../../internal/testing/index.ts';
import { eventually } from '../cluster/harness/node-shell.ts';
import type { Machine } from '../machines/shell-machine.ts';
import { packetsOf, type Packet } from './capture.ts';
import { renderFlannel } from './flannel-chart.ts';
import {
  createPod,
  installFlannel,
  send,
  startEtcd,
  startFlannel,
  stopFlannel,
  type Pod,
} from './flannel-nodes.ts';
import { createMachineFiles } from './machine-root.ts';
import { bootPair } from './pair.ts';

/**
 * Two machines with Debian's kernel and the flannel of the bundle, as the network chart configures it, at both ends of a cable of which
 * every frame is recorded. With WireGuard, what pods send to each other is not in the recording; with VXLAN it is, so the search works.
 */
const NETWORKS = { podCIDR: '10.244.0.0/16', podCIDRv6: 'fd00:10:244::/56' };
const POD_ADDRESS = /^(10\.244\.|fd00:10:244:)/;
/** The emulation is slow on a busy host, and flannel learns of the other node a moment after its own start. */
const PATIENCE_SECONDS = 240;
const ARRIVAL_SECONDS = 40;
const LEAK_SECONDS = 4;

await test('the packets of pods between nodes are encrypted with WireGuard', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-podnetwork-'));
  const at = (name: string): string => join(directory, name);
  try {
    const helm = await programOfBundle('helm', directory);
    const files = await createMachineFiles(directory);
    const run = async (backend: string, link: string) => {
      const container = await renderFlannel(helm, { ...NETWORKS, backend: { type: backend } });
      await mkdir(at(backend));
      await using stack = new AsyncDisposableStack();
      const pair = stack.use(await bootPair(at(backend), files));
      await startEtcd(pair.machines[0], container);
      await Promise.all(
        pair.machines.map(async (machine) => {
          await installFlannel(machine, container);
          await startFlannel(machine, link);
        }),
      );
      const pods = await Promise.all(pair.machines.map((machine) => createPod(machine)));
      const owner = stack.move();
      return {
        ...{ machines: pair.machines, pods, frames: () => readFile(pair.capture) },
        [Symbol.asyncDispose]: () => owner.disposeAsync(),
      };
    };

    await story.test('with VXLAN, the recording has what pods send', async () => {
      await using nodes = await run('vxlan', 'flannel.1');
      const texts = await exchange(nodes);
      const frames = await nodes.frames();
      for (const text of texts) assert.ok(frames.includes(text), text);
      assert.equal(countOf(frames, isUdpTo(VXLAN_PORT)) > 0, true);
    });

    await using nodes = await run('wireguard', 'flannel-wg');
    const [first, second] = nodes.machines;

    await story.test(
      'with WireGuard, everything arrives in both directions and with both IP families, and the recording has nothing of it',
      async () => {
        const texts = await exchange(nodes);
        const frames = await nodes.frames();
        for (const text of texts) assert.equal(frames.includes(text), false, text);
        assert.equal(countOf(frames, isOfPod), 0);
        assert.equal(countOf(frames, isUdpTo(VXLAN_PORT)), 0);
        for (const [port, prefix] of [
          [WIREGUARD_PORTS.ipv4, '192.0.2.'],
          [WIREGUARD_PORTS.ipv6, 'fd00:192:0:0:0:0:0:'],
        ] as const)
          for (const source of [1, 2])
            assert.ok(
              countOf(frames, (packet) => isUdpTo(port)(packet) && packet.source === `${prefix}${source}`) >
                20,
              `${prefix}${source} to port ${port}`,
            );
      },
    );

    await story.test('only root reads the private key, which a restart keeps', async () => {
      const modes = await first.sh('stat -c "%a %u %F" /run/flannel/wireguard /run/flannel/wireguard/key');
      assert.deepEqual(modes.split('\n'), ['700 0 directory', '400 0 regular file']);
      const before = await publicKeys(first);
      await stopFlannel(second);
      await startFlannel(second, 'flannel-wg');
      assert.deepEqual(await publicKeys(first), before);
      await exchange(nodes);
    });

    await story.test(
      'while flannel does not run, packets of pods do not leave the node, which is the work of one route',
      async () => {
        await stopFlannel(first);
        await assert.rejects(first.sh('/bin/ip link show flannel-wg'));
        const before = countOf(await nodes.frames(), isOfPod);
        for (const address of addressesOf(nodes.pods[1]))
          assert.equal(
            await send(first, second, { address, text: 'refused', withinSeconds: LEAK_SECONDS }),
            false,
          );
        assert.equal(countOf(await nodes.frames(), isOfPod), before);
        // Without the route they leave through the default route, readable for everybody.
        for (const family of ['-4', '-6'])
          await first.sh(
            `/bin/ip ${family} route flush proto 109; ! /bin/ip ${family} route | grep unreachable`,
          );
        for (const address of addressesOf(nodes.pods[1]))
          await send(first, second, { address, text: 'readable', withinSeconds: LEAK_SECONDS });
        assert.equal(countOf(await nodes.frames(), isOfPod) > before, true);
        await startFlannel(first, 'flannel-wg');
        await exchange(nodes);
      },
    );

    await story.test('a node that has a new key after a boot is reached again', async () => {
      const before = await publicKeys(first);
      await stopFlannel(second);
      await second.sh('rm -r /run/flannel/wireguard');
      await startFlannel(second, 'flannel-wg');
      const after = await publicKeys(first);
      assert.equal(after.filter((key) => before.includes(key)).length, 1, 'the key of the other node');
      await exchange(nodes);
    });
  } finally {
    await rm(directory, { recursive: true });
  }
});

/** Sends a text in each direction with each IP family, until all of it has arrived. Returns the texts. */
async function exchange({
  machines,
  pods,
}: {
  readonly machines: readonly [Machine, Machine];
  readonly pods: readonly Pod[];
}): Promise<readonly string[]> {
  const [first, second] = machines;
  const texts: string[] = [];
  for (const [from, to, pod] of [
    [first, second, pods[1]],
    [second, first, pods[0]],
  ] as const)
    for (const address of addressesOf(pod)) {
      const text = `plaintext-${randomBytes(16).toString('hex')}`;
      texts.push(text);
      await eventually(
        `all of ${text} at ${address}`,
        PATIENCE_SECONDS,
        () => send(from, to, { address, text, withinSeconds: ARRIVAL_SECONDS }),
        (hasArrived) => hasArrived,
      );
    }
  return texts;
}

function addressesOf(pod: Pod | undefined): readonly string[] {
  assert.ok(pod);
  return [pod.ipv4, pod.ipv6];
}

/** The public keys in the leases of both nodes. */
async function publicKeys(machine: Machine): Promise<readonly string[]> {
  const leases = await machine.sh('etcdctl get --prefix --print-value-only /coreos.com/network/subnets/');
  const keys = [...leases.matchAll(/"BackendData":\{[^}]*"PublicKey":"([^"]+)"/g)].map(([, key = '']) => key);
  assert.equal(new Set(keys).size, 2);
  return keys.toSorted();
}

function countOf(frames: Buffer, matches: (packet: Packet) => boolean): number {
  return packetsOf(frames).filter((packet) => matches(packet)).length;
}

function isUdpTo(port: number): (packet: Packet) => boolean {
  return ({ isUdp, destinationPort }) => isUdp && destinationPort === port;
}

/** An unencrypted packet from or to a pod. */
function isOfPod({ source, destination }: Packet): boolean {
  return POD_ADDRESS.test(source) || POD_ADDRESS.test(destination);
}
