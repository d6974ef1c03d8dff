import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findCluster } from '../../internal/localmachines/index.ts';
import { createHarness, type Harness } from './harness.ts';

/** The moments at which `up` is killed: `ms` after it has printed the message `after`. */
const MOMENTS = [
  { after: 'Installing the agent package', ms: 100 },
  { after: 'Starting machine', ms: 0 },
  { after: 'Starting machine', ms: 60 }, // the network
  { after: 'Starting machine', ms: 250 }, // the TPM's manufacture
  { after: 'Starting machine', ms: 900 },
  { after: 'Starting machine', ms: 1300 }, // the boot
  { after: 'Starting machine', ms: 1700 },
] as const;

for (const { after, ms } of MOMENTS) {
  await test(`after kill -9 ${ms} ms after "${after}", mini down restores the host`, async () => {
    await using bench = await createHarness();
    const before = await bench.facts();
    await killedUp(bench, after, ms);
    const cluster = await findCluster(bench.machines, { root: bench.root, name: 'torn' });
    await bench.must('mini', 'down', '--name', 'torn');
    const mine = cluster === undefined ? [] : [cluster.network.number];
    assert.deepEqual(bench.changes(before, await bench.facts(), mine), []);
    assert.deepEqual(await bench.machines.files.list(bench.root), []);
  });
}

await test('after kill -9 of mini up, the same command continues and creates nothing twice', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  await killedUp(bench, 'Starting machine', 900);
  await bench.up('torn');
  const cluster = await bench.cluster('torn');
  const node = await cluster.node('n1');
  const { stdout } = await node.exec(['systemctl', 'is-system-running', '--wait'], { signal: bench.signal });
  assert.equal(stdout.trim(), 'running');
  const facts = await bench.facts();
  const own = (facts['processes'] ?? []).filter((line) => line.startsWith(`clu${cluster.network.number}-`));
  assert.equal(own.filter((line) => line.includes('swtpm socket')).length, 1);
  assert.equal(own.filter((line) => /\d+ systemd-nspawn /.test(line)).length, 1);
  await bench.must('mini', 'down', '--name', 'torn');
  assert.deepEqual(bench.changes(before, await bench.facts(), [cluster.network.number]), []);
});

await test('kill -9 during the build of the root file system leaves no processes or mounts, and the next build starts from the beginning', async () => {
  await using bench = await createHarness({ ownCache: true });
  const before = await bench.facts();
  await killedUp(bench, 'Preparing the root file system', 6000);
  await bench.must('mini', 'down', '--name', 'torn');
  assert.deepEqual(bench.changes(before, await bench.facts()), []);
  await bench.up('torn');
  assert.match(await bench.must('mini', 'ls'), /n1\s+Running/);
});

await test('a second command is refused while the first one holds the lock', async () => {
  await using bench = await createHarness();
  await bench.up('busy');
  const cluster = await bench.cluster('busy');
  await using _lock = await cluster.lock();
  const refused = await bench.cli('mini', 'down', '--name', 'busy');
  assert.equal(refused.code, 9);
  assert.match(refused.stderr, /localmachines-locked/);
});

/** `mini up` that is killed `ms` after it has printed `after`. */
function killedUp(bench: Harness, after: string, ms: number): Promise<void> {
  return bench.killedCli(after, ms, 'mini', 'up', '--nodes-only', '--name', 'torn', '--agent', bench.agent);
}
