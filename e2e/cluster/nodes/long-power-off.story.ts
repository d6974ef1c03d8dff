import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster, withLifetimes } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';

/**
 * Certificate lifetime. Kubernetes clients look at their files only every five minutes, so with a shorter
 * lifetime they would sometimes be late.
 */
const MINUTES = 6;
/** Doctor names the certificate of a node that expires first. The others were issued within this time. */
const OTHERS_MS = 20_000;
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

  await story.test(
    'all machines are off until the time that `cluster doctor --at` foretold',
    async (step) => {
      const { stdout } = await bench.cli(
        ...['--workspace', await cluster.workspace(), 'doctor', '--at', `+${2 * MINUTES}m`],
        ...['--output', 'json'],
      );
      await Promise.all(MACHINES.map((machine) => cluster.cutPower(machine)));
      const endsMs = MACHINES.map((machine) => endOf(stdout, `certificates of ${machine}`));
      step.diagnostic(endsMs.map((ms) => new Date(ms).toISOString()).join(' '));
      // The agents log below that these certificates have expired.
      await eventually(
        'the clock reaches the last of these times',
        MINUTES * 60 + 30,
        () => Promise.resolve(Date.now()),
        (nowMs) => nowMs > Math.max(...endsMs) + OTHERS_MS,
      );
    },
  );

  await story.test('machines that are started in any order become Ready as the same nodes', async () => {
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

  await story.test('control planes renewed their certificates before they started their etcd', async () => {
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

  await story.test(
    'the worker renewed its certificate with fresh evidence, and no node joined again',
    async () => {
      assert.match(await cluster.log('n4'), /expired while the node was off/);
      const { joins } = await cluster.cliJson<{ joins: readonly { state: string }[] }>(
        'node',
        'ls',
        '--joins',
      );
      assert.deepEqual(
        joins.map(({ state }) => state),
        ['joined', 'joined', 'joined'],
      );
      // The status may lag behind the nodes by one or two heartbeats.
      await eventually(
        'the cluster is healthy',
        90,
        () => cluster.cliJson<{ healthy: boolean }>('status'),
        ({ healthy }) => healthy,
      );
    },
  );

  await story.test('no machine reaches the internet', () => cluster.expectNoInternet(MACHINES));
});

/** The time at which something ends, from the output of `cluster doctor --at … --output json`. */
function endOf(stdout: string, subject: string): number {
  const { data } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
    readonly data?: { readonly endings: readonly { readonly subject: string; readonly ends: string }[] };
  };
  const ending = data?.endings.find((each) => each.subject === subject);
  assert.ok(ending, `${subject}: ${stdout}`);
  return Date.parse(ending.ends);
}
