import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { hostAddress, namespaceFile, portName, type LocalNode } from '../../internal/localmachines/index.ts';
import { OWNER_KEY, createHarness } from './harness.ts';

const CONNECTED = 'connected';

await test('machines reach each other and the workstation, and nothing else', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  await bench.up('red');
  await bench.up('blue');
  const red = await bench.cluster('red');
  const blue = await bench.cluster('blue');
  const n1 = await red.node('n1');
  const n2 = await red.addNode({ name: 'n2', layers: n1.record.layers, ownerKeys: [OWNER_KEY] });
  await n2.start(bench.signal);
  const other = await blue.node('n1');
  assert.notEqual(other.address, n1.address);

  // All machines listen, and also the workstation on its address in the network of `red`.
  for (const node of [n1, n2, other]) await listen(node, bench.signal);
  const host = hostAddress(red.network);
  await using _server = await listenAt(host, 9100);
  const from = (node: LocalNode, address: string, port: number): Promise<string> =>
    tryConnect(node, address, port, bench.signal);

  assert.equal(await from(n1, n2.address, 9100), CONNECTED);
  assert.equal(await from(n2, n1.address, 9100), CONNECTED);
  assert.equal(await from(n1, host, 9100), CONNECTED);
  assert.equal(await connectFromHost(n1.address, bench), CONNECTED);
  assert.equal(await connectFromHost(other.address, bench), CONNECTED);

  // A machine must not reach the other cluster, other addresses of the workstation, the internet or a DNS
  // resolver.
  const elsewhere: readonly (readonly [string, number])[] = [
    [other.address, 9100],
    [hostAddress(blue.network), 9100],
    ['1.1.1.1', 53],
    ['9.9.9.9', 443],
    ...(await otherHostAddresses(bench)).map((address) => [address, 22] as const),
  ];
  const answers = await Promise.all(elsewhere.map(([address, port]) => from(n1, address, port)));
  for (const answer of answers) assert.match(answer, /No route to host|timed out/);
  assert.match(await from(n1, host, 53), /Connection refused/);

  // Takes a machine's network link down or up at the switch.
  const cable = async (state: 'up' | 'down'): Promise<void> => {
    const at = `--net=${namespaceFile(red.network, undefined)}`;
    const argv = ['nsenter', at, 'ip', 'link', 'set', portName(n2.address), state] as const;
    await bench.machines.commands.run({ argv: [...argv], signal: bench.signal });
  };
  await cable('down');
  assert.notEqual(await from(n1, n2.address, 9100), CONNECTED);
  await cable('up');
  assert.equal(await from(n1, n2.address, 9100), CONNECTED);

  // While the clusters run, the host has one more link per cluster. Its firewall, sysctls and bridges are
  // unchanged.
  const during = bench.changes(before, await bench.facts(), [red.network.number, blue.network.number]);
  assert.deepEqual(
    during.filter((line) => /firewall|sysctls/.test(line)),
    [],
  );
  assert.equal(during.filter((line) => line.startsWith('+ links:')).length, 2);

  // Removing one cluster does not affect the other.
  await bench.must('mini', 'down', '--name', 'red');
  assert.equal(await other.isRunning(bench.signal), true);
  assert.equal(await connectFromHost(other.address, bench), CONNECTED);
  assert.doesNotMatch(await bench.must('mini', 'ls'), /red/);
  await bench.must('mini', 'down', '--name', 'blue');
  const after = await bench.facts();
  assert.deepEqual(bench.changes(before, after, [red.network.number, blue.network.number]), []);
});

async function listen(node: LocalNode, signal: AbortSignal): Promise<void> {
  await node.exec(['systemd-run', '--quiet', 'socat', 'TCP-LISTEN:9100,fork,reuseaddr', 'OPEN:/dev/null'], {
    signal,
  });
  const listening =
    'for i in $(seq 100); do ss -Hltn sport = 9100 | grep -q . && exit 0; sleep 0.05; done; exit 1';
  await node.exec(['sh', '-c', listening], { signal });
}

/** Returns `connected`, or the error of the kernel. */
async function tryConnect(
  node: LocalNode,
  address: string,
  port: number,
  signal: AbortSignal,
): Promise<string> {
  const { exitCode, stderr } = await node.exec(
    ['timeout', '4', 'bash', '-c', `exec 3<>/dev/tcp/${address}/${port}`],
    { signal, okExitCodes: [0, 1, 124] },
  );
  return exitCode === 0 ? CONNECTED : exitCode === 124 ? 'timed out' : stderr;
}

async function connectFromHost(
  address: string,
  bench: Awaited<ReturnType<typeof createHarness>>,
): Promise<string> {
  const argv = ['timeout', '4', 'bash', '-c', `exec 3<>/dev/tcp/${address}/9100`] as const;
  const { exitCode } = await bench.machines.commands.run({
    argv: [...argv],
    okExitCodes: [0, 1, 124],
    signal: bench.signal,
  });
  return exitCode === 0 ? CONNECTED : 'refused';
}

async function listenAt(address: string, port: number): Promise<AsyncDisposable> {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, resolve);
  });
  return { [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}

/** Addresses of the host outside of the networks of local clusters. */
async function otherHostAddresses(
  bench: Awaited<ReturnType<typeof createHarness>>,
): Promise<readonly string[]> {
  const { stdout } = await bench.machines.commands.run({
    argv: ['ip', '-br', '-4', 'address', 'show', 'scope', 'global'],
    signal: bench.signal,
  });
  return [...stdout.matchAll(/(\d+\.\d+\.\d+\.\d+)\//g)]
    .map((match) => match[1] ?? '')
    .filter((address) => !address.startsWith('198.18.'));
}
