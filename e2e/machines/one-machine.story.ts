import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { OWNER_KEY, createHarness } from './harness.ts';
import { extendRegister, readRegister } from './tpm-client.ts';

await test('a machine keeps only its disk and identity over power cycles', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();

  const said = await bench.up('one');
  assert.match(said, /Next: cluster mini exec --name one n1 -- bash/);
  const cluster = await bench.cluster('one');
  const node = await cluster.node('n1');
  const tpmSocket = join(node.paths.tpm, 'run/tpm.sock');
  const run = async (...program: [string, ...string[]]): Promise<string> =>
    (await node.exec(program, { signal: bench.signal, timeoutMs: 30_000 })).stdout.trim();

  // The real agent unit of the package runs under the machine's own systemd.
  assert.equal(await run('systemctl', 'is-system-running', '--wait'), 'running');
  assert.equal(await run('systemctl', 'is-active', 'bootstrapper.service'), 'active');
  assert.equal(await run('hostname'), 'n1');
  assert.equal(
    await run('stat', '-c', '%a', '/etc/cluster/provisioning.json', '/var/lib/cluster'),
    '600\n700',
  );
  const provisioning = JSON.parse(await run('cat', '/etc/cluster/provisioning.json')) as Record<
    string,
    unknown
  >;
  assert.equal(provisioning['address'], node.address);
  assert.deepEqual(provisioning['seedStores'], ['/var/lib/cluster-seed']);
  await run('test', '-d', '/var/lib/cluster-seed/blobs');
  await run('test', '-S', '/run/cluster-tpm/tpm.sock');

  // Settings that a kubelet needs and that must not affect the host.
  assert.equal(await run('cat', '/proc/sys/vm/overcommit_memory'), '1');
  assert.equal(await run('findmnt', '--noheadings', '--output', 'PROPAGATION', '/'), 'shared');
  await run('sh', '-c', 'for c in /sys/fs/cgroup/*/; do mkdir -p $c/probe && rmdir $c/probe || exit 1; done');
  await run('test', '-c', '/dev/kmsg');

  // The CLI passes the exit code and the streams of the program.
  const exec = await bench.cli(
    'mini',
    'exec',
    '--name',
    'one',
    'n1',
    '--',
    'sh',
    '-c',
    'echo out; echo err >&2; exit 42',
  );
  assert.deepEqual([exec.code, exec.stdout.trim()], [42, 'out']);
  assert.match(exec.stderr, /err/);

  const machineId = await run('cat', '/etc/machine-id');
  const bootId = await run('cat', '/proc/sys/kernel/random/boot_id');
  const ek = await node.ekFingerprint();
  assert.match(ek ?? '', /^sha256:[0-9a-f]{64}$/);
  const zero = '0'.repeat(64);
  assert.equal(await readRegister(tpmSocket, 15), zero);
  await extendRegister(tpmSocket, 15, 'ab'.repeat(32));
  assert.notEqual(await readRegister(tpmSocket, 15), zero);
  await run(
    'sh',
    '-c',
    'echo kept > /var/lib/cluster/kept; echo kept > /etc/kept; echo lost > /run/lost; sync',
  );

  const stopped = JSON.parse(
    await bench.must('mini', 'stop', '--name', 'one', 'n1', '-o', 'json').then(lastLine),
  ) as {
    readonly data: { readonly how: string };
  };
  assert.equal(stopped.data.how, 'orderly');
  assert.equal(await node.isRunning(bench.signal), false);
  assert.match(await bench.must('mini', 'ls'), /n1\s+Stopped/);
  const off = await bench.cli('mini', 'exec', '--name', 'one', 'n1', '--', 'true');
  assert.equal(off.code, 5);
  assert.match(off.stderr, /localmachines-not-running/);
  await bench.must('mini', 'start', '--name', 'one', 'n1');

  assert.equal(await run('cat', '/etc/machine-id'), machineId);
  assert.notEqual(await run('cat', '/proc/sys/kernel/random/boot_id'), bootId);
  assert.equal(await node.ekFingerprint(), ek);
  assert.equal(await readRegister(tpmSocket, 15), zero, 'a power cycle resets the registers');
  assert.equal(await run('cat', '/var/lib/cluster/kept', '/etc/kept'), 'kept\nkept');
  await assert.rejects(run('cat', '/run/lost'));

  // A power cut: programs in the machine get no signal and lose everything that is not on disk.
  await run(
    'systemd-run',
    '--unit=witness',
    'sh',
    '-c',
    'trap "echo orderly > /var/lib/cluster/witness" TERM; sleep 1000 & wait',
  );
  assert.match(
    await bench.must('mini', 'stop', '--power-cut', '--dry-run', '--name', 'one', 'n1'),
    /not written/,
  );
  assert.equal(await node.isRunning(bench.signal), true);
  await bench.must('mini', 'stop', '--power-cut', '--name', 'one', 'n1');
  assert.equal(await node.isRunning(bench.signal), false);
  await bench.must('mini', 'start', '--name', 'one', 'n1');
  await assert.rejects(run('cat', '/var/lib/cluster/witness'));
  assert.equal(await run('cat', '/var/lib/cluster/kept'), 'kept');

  // The same command again does not restart the machine.
  const again = await run('cat', '/proc/sys/kernel/random/boot_id');
  await bench.up('one');
  assert.equal(await run('cat', '/proc/sys/kernel/random/boot_id'), again);

  await bench.must('mini', 'down', '--name', 'one');
  assert.deepEqual(bench.changes(before, await bench.facts(), [cluster.network.number]), []);
});

await test('a machine can be created with another swap table, a small disk and additional files, to inject faults', async () => {
  await using bench = await createHarness();
  await bench.up('knobs');
  const cluster = await bench.cluster('knobs');
  const first = await cluster.node('n1');
  const shown = join(bench.directory, 'shown');
  await writeFile(shown, 'shown');
  const node = await cluster.addNode({
    name: 'n2',
    layers: first.record.layers,
    ownerKeys: [OWNER_KEY],
    procFiles: { swaps: 'Filename Type Size Used Priority\n/dev/swap partition 1048572 0 -2\n' },
    binds: [{ source: shown, target: '/etc/shown', readOnly: true }],
    diskBytes: 16 * 1024 * 1024,
  });
  await node.start(bench.signal);
  const run = (
    ...program: [string, ...string[]]
  ): Promise<{ readonly stdout: string; readonly exitCode: number }> =>
    node.exec(program, { signal: bench.signal, okExitCodes: [0, 1], timeoutMs: 30_000 });

  assert.match((await run('cat', '/proc/swaps')).stdout, /\/dev\/swap/);
  assert.doesNotMatch(await readFile('/proc/swaps', 'utf8'), /\/dev\/swap\b/);
  assert.equal((await run('cat', '/etc/shown')).stdout, 'shown');
  const full = await run('sh', '-c', 'head -c 32M /dev/zero > /var/lib/cluster/big');
  assert.equal(full.exitCode, 1, 'the disk is full');
  await node.cutPower(bench.signal);
  await node.start(bench.signal);
  assert.equal(
    (await run('test', '-s', '/var/lib/cluster/big')).exitCode,
    0,
    'a small disk outlives a power cut',
  );
});

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
