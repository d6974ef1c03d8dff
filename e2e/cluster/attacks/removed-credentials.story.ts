import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import { reportRefused } from '../../attack-report.ts';
import { createHarness } from '../../machines/harness.ts';
import { CompromisedMachine } from './compromised-machine.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';

const NAME = 'lostnode';
const DAY_MS = 86_400_000;
const ENDPOINTS = [
  ...['Kubernetes', 'state'].flatMap((etcd) => [`${etcd} etcd client port`, `${etcd} etcd peer port`]),
  'API server',
  'kubelet',
];

await test('node remove tests the credentials of a lost control plane at every endpoint of the other nodes', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);

  await story.test(
    'a worker gets no certificate for the address of a control plane that is off',
    async (step) => {
      const endpoint = `${await cluster.address('n1')}:9090`;
      const worker = await CompromisedMachine.compromise(bench, cluster, 'n4', endpoint);
      const [own, address] = [await cluster.address('n4'), await cluster.address('n3')];
      await cluster.cutPower('n3');
      await eventually(
        'the cluster counts n3 as off',
        60,
        () => must('node', 'ls'),
        (said) => /n3 +\S*NotResponding/.test(said),
      );
      const refused = await worker.attack('certificates', { address });
      assert.deepEqual(refused, { refused: 'join-address-taken' });
      const attempted = 'a certificate for the address of a control plane that is off';
      reportRefused(step, attempted, 'the join service', 'join-address-taken');
      const granted = await worker.attack('certificates', { address: own });
      assert.ok('granted' in granted, 'it gets certificates for its own address');
      for (const node of ['n1', 'n2', 'n4']) {
        const pem = await cluster.run(node, 'cat', '/var/lib/cluster/kubernetes/kubelet-serving.crt');
        const daysLeft = (Date.parse(new X509Certificate(pem).validTo) - Date.now()) / DAY_MS;
        assert.ok(daysLeft < 8, `the serving certificate of ${node} is valid for ${daysLeft} days`);
      }
    },
  );

  await story.test(
    'every endpoint refuses the credentials of the lost node, and the CLI lists the endpoints that still trust CA keys which that node had',
    async (step) => {
      const shown = await must('node', 'show', 'n3');
      const [nodeId = ''] = /node-[0-9a-f]{32}/.exec(shown) ?? [];
      const said = await must(
        ...['--output', 'wide', 'node', 'remove', '--yes', 'n3', '--lost', '--keep-keys'],
      );
      step.diagnostic(said);
      for (const node of ['n1', 'n2'])
        for (const endpoint of ENDPOINTS)
          assert.match(
            said,
            new RegExp(`credentials test: ${endpoint} on ${node} +node refused \\(.*kubelet refused \\(`),
          );
      assert.match(said, /credentials test: kubelet on n4 +node refused \(.*kubelet refused \(/);
      for (const [, endpoint = '', answer = ''] of said.matchAll(
        /credentials test: (.+? on n\d) +(node refused .*)/g,
      ))
        reportRefused(step, `credentials of the lost node at ${endpoint}`, 'that endpoint', answer);
      assert.match(said, /kubelet refused \(HTTP 403: .*not found/, 'the API server says why');
      for (const key of ['etcd clients CA', 'etcd peers CA', 'state etcd clients CA', 'Kubernetes CA'])
        assert.match(said, new RegExp(`${key}.*\\n +tested: accepted at .*n1`));
      // The same command runs again with the node ID, because the name is no longer on record.
      const again = await must('--output', 'wide', 'node', 'remove', '--yes', nodeId, '--lost');
      assert.match(again, /credentials test: state etcd peer port on n1 +node refused/);
    },
  );

  await story.test(
    'the join service refuses the removed machine even with a new key, until an owner readmits it',
    async (step) => {
      const configuration = await must('config', 'show');
      assert.doesNotMatch(configuration, /name: n3/, 'its removal deleted its inventory entry');
      assert.match(await must('node', 'ls', '--removed'), /tpm-ek:[0-9a-f]{64} +n3 +operator:owner +no/);
      await cluster.start('n3');
      const lost = new NodeShell(bench, NAME, 'n3');
      await lost.run('sh', '-c', 'install -D /dev/null /var/lib/cluster/reset/order.json');
      // On a busy machine the agent is still starting, finds the order, and has reset the machine already.
      await cluster.try('n3', 'systemctl', 'restart', '--no-block', 'bootstrapper');
      await eventually(
        'the machine has powered off',
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
      await asked(/join-decommissioned/);
      reportRefused(step, 'a removed machine with a new key', 'the join service', 'join-decommissioned');
      await must('node', 'readmit', 'n3');
      assert.match(await must('node', 'ls', '--removed'), /n3 +operator:owner +yes/);
      // The machine may request to join again. It stays unknown, because its removal deleted its inventory
      // entry.
      await asked(/join-unknown-machine/);
      reportRefused(
        step,
        'a readmitted machine without an approval',
        'the join service',
        'join-unknown-machine',
      );
    },
  );

  await story.test('no log has a certificate or a private key', async () => {
    const log = await cluster.log('n1');
    assert.doesNotMatch(log + (await cluster.log('n2')), /PRIVATE KEY|BEGIN CERTIFICATE/);
  });
});
