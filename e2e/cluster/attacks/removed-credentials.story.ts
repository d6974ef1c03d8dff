import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';

const NAME = 'papers';
const ENDPOINTS = [
  ...['Kubernetes', 'state'].flatMap((etcd) => [`${etcd} etcd client port`, `${etcd} etcd peer port`]),
  'API server',
  'kubelet',
];

await test('a control plane is lost: papers in its name are tried at every door of the others', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);

  await story.test('all refuse its own papers, and what its keys make is told door by door', async (step) => {
    const shown = await must('node', 'show', 'n3');
    const [nodeId = ''] = /node-[0-9a-f]{32}/.exec(shown) ?? [];
    await cluster.cutPower('n3');
    const said = await must('node', 'remove', '--yes', 'n3', '--lost', '--keep-keys');
    step.diagnostic(said);
    for (const node of ['n1', 'n2'])
      for (const endpoint of ENDPOINTS)
        assert.match(
          said,
          new RegExp(`credentials test: ${endpoint} on ${node} +node refused \\(.*kubelet refused \\(`),
        );
    assert.match(said, /credentials test: kubelet on n4 +node refused \(.*kubelet refused \(/);
    assert.match(said, /kubelet refused \(HTTP 403: .*not found/, 'the API server says why');
    for (const key of ['etcd clients CA', 'etcd peers CA', 'state etcd clients CA', 'Kubernetes CA'])
      assert.match(said, new RegExp(`${key}.*\\n +tested now: accepted at .*n1`));
    // It can be asked again, by the id that is left.
    const again = await must('node', 'remove', '--yes', nodeId, '--lost');
    assert.match(again, /credentials test: state etcd peer port on n1 +node refused/);
  });

  await story.test('its machine is refused with a fresh key until an owner readmits it', async (step) => {
    const configuration = await must('config', 'show');
    assert.doesNotMatch(configuration, /name: n3/, 'its entry of the inventory went with it');
    assert.match(await must('node', 'ls', '--removed'), /tpm-ek:[0-9a-f]{64} +n3 +operator:owner +no/);
    await cluster.start('n3');
    const lost = new NodeShell(bench, NAME, 'n3');
    await lost.run('sh', '-c', 'install -D /dev/null /var/lib/cluster/reset/order.json');
    await lost.run('systemctl', 'restart', '--no-block', 'bootstrapper');
    await eventually(
      'the machine has ended',
      120,
      () => cluster.try('n3', 'true'),
      ({ stderr }) => /node is not running/.test(stderr),
    );
    await cluster.start('n3');
    const asked = (code: RegExp) =>
      eventually(
        `${code.source} in the list of machines that asked`,
        180,
        () => must('node', 'ls', '--joins'),
        (said) => code.test(said),
      );
    step.diagnostic(await asked(/join-decommissioned/));
    await must('node', 'readmit', 'n3');
    assert.match(await must('node', 'ls', '--removed'), /n3 +operator:owner +yes/);
    // It may ask again; the inventory, which is this cluster's policy, does not name it any more.
    await asked(/join-unknown-machine/);
  });

  await story.test('no paper and no key is in a log', async () => {
    const log = await cluster.log('n1');
    assert.doesNotMatch(log + (await cluster.log('n2')), /PRIVATE KEY|BEGIN CERTIFICATE/);
  });
});
