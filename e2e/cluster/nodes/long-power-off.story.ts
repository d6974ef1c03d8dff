import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster, withLifetimes } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';

/** Shorter, and Kubernetes' own clients, which look at their files every five minutes, are late at times. */
const MINUTES = 6;
const CONTROL_PLANES = ['n1', 'n2', 'n3'];
const MACHINES = ['n1', 'n2', 'n3', 'n4'];

await test('a cluster that was off until all certificates expired recovers by itself', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'longoff');
  await cluster.machines({ controlPlanes: 3, workers: 1 }, withLifetimes(MINUTES));
  await cluster.up();
  const keys = async (): Promise<readonly string[]> =>
    Promise.all(MACHINES.map((machine) => cluster.nodeKey(machine)));
  const ids = async (): Promise<string> =>
    cluster.sh('n1', `kubectl get nodes -o jsonpath='{.items[*].metadata.uid}'`);
  const before = { keys: await keys(), ids: await ids() };
  await cluster.sh('n1', 'kubectl create configmap kept --from-literal=x=1');

  await story.test('all machines are off until all certificates have expired', async () => {
    await Promise.all(MACHINES.map((machine) => cluster.cutPower(machine)));
    const offMs = Date.now();
    await eventually(
      'everything has run out',
      MINUTES * 60 + 30,
      () => Promise.resolve(Date.now() - offMs),
      (passedMs) => passedMs > MINUTES * 60_000 + 5_000,
    );
  });

  await story.test('started in any order, they are Ready as the same nodes', async () => {
    const order = [...MACHINES];
    for (let last = order.length - 1; last > 0; last--) {
      const other = randomInt(last + 1);
      [order[last], order[other]] = [order[other] ?? '', order[last] ?? ''];
    }
    story.diagnostic(`in this order: ${order.join(' ')}`);
    for (const machine of order) await cluster.start(machine);
    await cluster.allReady(MACHINES, 300);
    assert.deepEqual({ keys: await keys(), ids: await ids() }, before);
    assert.equal(await cluster.members(), MACHINES.length);
    assert.equal(await cluster.sh('n1', 'kubectl get configmap kept -o jsonpath={.data.x}'), '1');
  });

  await story.test('control planes renewed their certificates before their etcd started', async () => {
    for (const machine of CONTROL_PLANES) {
      assert.match(await cluster.log(machine), /expired while the node was off/);
      const etcd = await cluster.sh(
        machine,
        'journalctl --boot --unit cluster-etcd-state --unit cluster-etcd-kubernetes --no-pager --output cat --lines all',
      );
      assert.match(etcd, /ready to serve client requests/);
      assert.doesNotMatch(etcd, /certificate has expired/);
    }
  });

  await story.test('the worker renewed with fresh evidence, and no node joined again', async () => {
    assert.match(await cluster.log('n4'), /expired while the node was off/);
    const { joins } = await cluster.cliJson<{ joins: readonly { state: string }[] }>('node', 'ls', '--joins');
    assert.deepEqual(
      joins.map(({ state }) => state),
      ['joined', 'joined', 'joined'],
    );
    // The status may lag behind the nodes by a look or two.
    await eventually(
      'the cluster is healthy',
      90,
      () => cluster.cliJson<{ healthy: boolean }>('status'),
      ({ healthy }) => healthy,
    );
  });

  await story.test('no machine reaches the internet', () => cluster.expectNoInternet(MACHINES));
});
