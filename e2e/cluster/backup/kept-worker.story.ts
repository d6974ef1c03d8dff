import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { addMachine } from '../harness/add-machine.ts';
import { eventually } from '../harness/node-shell.ts';
import { cliJson, reprovision, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'kept';
const EXIT_USAGE = 2;
/** For a worker to use the restored cluster, from the end of the command on. */
const RETURN_SECONDS = 60;

await test('a worker that lived through the loss of all control planes keeps its pods in the restored cluster', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1', '--demo');
  const workspace = await cluster.workspace();
  const directory = await mkdtemp(join(tmpdir(), 'cluster-kept-'));
  await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
  const file = join(directory, 'kept.backup');
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  const podsOnWorker = (from: string) =>
    cluster.sh(
      from,
      `kubectl get pods -A --field-selector spec.nodeName=n2 -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].containerID}{"\\n"}{end}' | sort`,
    );
  const namespace = await cluster.sh(
    'n1',
    `kubectl get deployments -A -o jsonpath='{.items[?(@.metadata.name=="hello")].metadata.namespace}'`,
  );
  const pinned = '{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"n2"}}}}}';
  await cluster.sh('n1', `kubectl -n ${namespace} patch deployment hello -p '${pinned}' >/dev/null`);
  await cluster.sh('n1', `kubectl -n ${namespace} rollout status deployment hello --timeout 120s >/dev/null`);
  const before = await podsOnWorker('n1');
  assert.match(before, /hello-.*containerd:/);
  await bench.must('--workspace', workspace, 'backup', 'create', '--to', file);

  const local = await bench.cluster(NAME);
  await addMachine(bench, local, { name: 'n3', like: 'n1', joinEndpoints: [] });
  const fingerprint = await cluster.fingerprint('n3');
  const at = ['--node', await cluster.address('n3'), '--fingerprint', fingerprint, '--yes'];
  await cluster.cutPower('n1');
  const endpoint = `${await cluster.address('n3')}:9090`;
  await reprovision(cluster, 'n2', (rest) => ({ ...rest, joinEndpoints: [endpoint] }));

  await story.test(
    'a name that is no worker of the backup is refused before anything is touched',
    async () => {
      for (const name of ['n1', 'n9']) {
        const { code, stderr } = await cli('restore', file, ...at, '--keep-worker', name);
        assert.equal(code, EXIT_USAGE, stderr);
        assert.match(stderr, /backup-worker-unknown/);
        assert.match(stderr, /the workers in the backup are n2/);
      }
      assert.equal(await cluster.sh('n3', 'ls /var/lib/cluster/init/request.json 2>/dev/null || true'), '');
    },
  );

  await story.test('the worker returns to the restored cluster by itself', async (step) => {
    const flags = [...at, '--keep-worker', 'n2'];
    const restored = await cliJson<{ epoch: number; keptWorkers: readonly string[] }>(
      bench,
      ...['--workspace', workspace, 'restore', file, ...flags],
    );
    assert.deepEqual([restored.epoch, restored.keptWorkers], [2, ['n2']]);
    const from = performance.now();
    await eventually(
      'n2 reports to the restored cluster',
      RETURN_SECONDS,
      () => bench.must('--workspace', workspace, 'node', 'ls'),
      (text) => /^n2 +Healthy +Ready/m.test(text),
    );
    step.diagnostic(`n2 reported ${Math.round((performance.now() - from) / 1000)} s after the command`);
    await cluster.allReady(['n2', 'n3'], RETURN_SECONDS, 'n3');
    const removed = await bench.must('--workspace', workspace, 'node', 'ls', '--removed');
    assert.match(removed, /n1/);
    assert.doesNotMatch(removed, /n2/);
  });

  await story.test('its pods are the same, in the same containers', async () => {
    const now = new Set((await podsOnWorker('n3')).split('\n'));
    // CoreDNS of the lost machine may have been started on n2 as well.
    for (const pod of before.split('\n')) assert.ok(now.has(pod), `${pod} of ${[...now].join(', ')}`);
  });

  await story.test('its kubelet and kube-proxy follow the restored cluster', async () => {
    await cluster.sh(
      'n3',
      `kubectl -n ${namespace} expose deployment hello --name after --port 80 --target-port 8080 >/dev/null`,
    );
    const address = await cluster.sh(
      'n3',
      `kubectl -n ${namespace} get service after -o jsonpath='{.spec.clusterIP}'`,
    );
    await eventually(
      'n2 reaches a new service',
      RETURN_SECONDS,
      () => cluster.try('n2', 'timeout', '2', 'bash', '-c', `exec 3<>/dev/tcp/${address}/80`),
      ({ code }) => code === 0,
    );
  });

  await story.test('it accepts what the owner signed for the restored cluster', async () => {
    const shown = await bench.must('--workspace', workspace, 'node', 'show', 'n2');
    assert.doesNotMatch(shown, /owner-document-/);
    assert.doesNotMatch(await cluster.log('n2'), /owner-document-serial/);
    await bench.must('--workspace', workspace, 'node', 'label', 'n2', 'zone=a');
  });
});
