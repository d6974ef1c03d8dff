import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';

const MACHINES = ['n1', 'n2', 'n3', 'n4'];

await test('four machines become a cluster although the first one loses its power while the others join', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'firstcut');
  await cluster.machines({ controlPlanes: 3, workers: 1 });
  const made = cluster.up().then(
    () => 'up',
    (error: unknown) => String(error),
  );

  await story.test('the first machine loses its power when one of the others is admitted', async () => {
    await eventually(
      'one of the other machines is admitted',
      300,
      async () => (await Promise.all(MACHINES.slice(1).map((machine) => cluster.log(machine)))).join('\n'),
      (log) => log.includes('admitted to the cluster'),
    );
    await cluster.cutPower('n1');
  });

  await story.test(
    'after the first machine is back, the same command completes, and each machine is a member once',
    async () => {
      await cluster.start('n1');
      story.diagnostic(`the first command: ${await made}`);
      await cluster.up();
      await cluster.allReady(MACHINES, 120);
      assert.equal(await cluster.members(), MACHINES.length);
      const said = await cluster.etcdctl('n1', 'member', 'list', '--write-out', 'json');
      const { members } = JSON.parse(said) as { members: readonly { name?: string; isLearner?: boolean }[] };
      assert.deepEqual(
        members.map(({ isLearner, name }) => [isLearner === true, (name ?? '') !== '']),
        [
          [false, true],
          [false, true],
          [false, true],
        ],
      );
    },
  );

  await story.test('no admission is pending, and no machine reached the internet', async () => {
    await cluster.expectNoInternet(MACHINES);
    const { joins } = await cluster.cliJson<{ joins: readonly { state: string }[] }>('node', 'ls', '--joins');
    assert.deepEqual(
      joins.map(({ state }) => state),
      ['joined', 'joined', 'joined'],
    );
  });
});
