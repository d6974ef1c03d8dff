import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoryCluster } from '../cluster/harness/story-cluster.ts';
import { createHarness } from './harness.ts';

const NAME = 'stopped';

/** A reboot of the host kills all machines, and removes their namespaces, links and switch. */
await test('`mini up` starts the machines of an existing cluster that do not run', async () => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const { network } = await bench.cluster(NAME);
  const machines = ['n1', 'n2'];
  const bootId = (machine: string) => cluster.run(machine, 'cat', '/proc/sys/kernel/random/boot_id');
  const boots = [await bootId('n1'), await bootId('n2')];
  await cluster.run('n1', 'kubectl', 'create', 'configmap', 'kept', '--from-literal=x=1');
  for (const machine of machines) await cluster.cutPower(machine);

  const { stdout, stderr } = await bench.cli('mini', 'ls');
  for (const machine of machines) assert.match(stdout, new RegExp(`${machine} +Stopped`));
  assert.match(stderr, /`cluster mini up --name stopped` starts them/);

  const said = await bench.must('mini', 'up', '--name', NAME);
  assert.match(said, /Local cluster stopped exists; started n1, n2\./);
  await cluster.allReady(machines, 120);
  assert.equal(
    await cluster.run('n1', 'kubectl', 'get', 'configmap', 'kept', '-o', 'jsonpath={.data.x}'),
    '1',
  );
  for (const [index, machine] of machines.entries()) assert.notEqual(await bootId(machine), boots[index]);
  assert.equal((await bench.cluster(NAME)).network.number, network.number);

  await cluster.cutPower('n2');
  assert.match(await bench.must('mini', 'up', '--name', NAME), /exists; started n2\./);
  assert.match(await bench.must('mini', 'up', '--name', NAME), /exists; nothing was changed\./);
  assert.doesNotMatch((await bench.cli('mini', 'ls')).stderr, /starts them/);
});
