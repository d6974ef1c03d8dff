import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { addMachine } from '../harness/add-machine.ts';
import { eventually } from '../harness/node-shell.ts';
import { cliJson, reprovision, StoryCluster } from '../harness/story-cluster.ts';
import { resetOnMachine } from './restored-objects.ts';

const NAME = 'kept';
const EXIT_USAGE = 2;
/** The workers know a removal this long after it. */
const KNOWN_SECONDS = 60;
/** For a worker to use the restored cluster, from the end of the command on. */
const RETURN_SECONDS = 60;

await test('a worker that lived through the loss of all control planes keeps its pods in the restored cluster', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '2', '--demo');
  const workspace = await cluster.workspace();
  const directory = await mkdtemp(join(tmpdir(), 'cluster-kept-'));
  await using _directory = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
  const file = join(directory, 'kept.backup');
  const ownerKey = join(directory, 'owner-key.pem');
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
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
  await must('backup', 'create', '--to', file);

  // After the backup, a machine joins and is removed, and a worker is removed. Only n2 knows this when the workspace is lost too.
  const local = await bench.cluster(NAME);
  const joinEndpoints = [`${await cluster.address('n1')}:9090`];
  const removed = await addMachine(bench, local, { name: 'n4', like: 'n2', joinEndpoints });
  await eventually(
    'an operator approves the new machine',
    120,
    () => must('node', 'approve', removed, '--name', 'n4'),
    () => true,
  );
  await eventually(
    'the new machine is a member',
    120,
    () => must('node', 'ls'),
    (text) => /^n4 /m.test(text),
  );
  for (const gone of ['n4', 'n3']) {
    await cluster.cutPower(gone);
    await must('node', 'remove', '--yes', gone, '--lost');
  }
  await eventually(
    'the worker knows that both machines were removed',
    KNOWN_SECONDS,
    () => cluster.sh('n2', 'cat /var/lib/cluster/membership/removals.json 2>/dev/null || true'),
    (text) => text.includes(removed) && text.includes('"n3"'),
  );

  await addMachine(bench, local, { name: 'n5', like: 'n1', joinEndpoints: [] });
  const fingerprint = await cluster.fingerprint('n5');
  const at = ['--node', await cluster.address('n5'), '--fingerprint', fingerprint, '--yes'];
  at.push('--owner-key', ownerKey);
  await cluster.cutPower('n1');
  const endpoint = `${await cluster.address('n5')}:9090`;
  await reprovision(cluster, 'n2', (rest) => ({ ...rest, joinEndpoints: [endpoint] }));
  await copyFile(join(workspace, 'owner-key.pem'), ownerKey);
  for (const name of await readdir(workspace)) await rm(join(workspace, name), { recursive: true });

  await story.test(
    'a name that is no worker of the backup is refused before anything is touched',
    async () => {
      for (const name of ['n1', 'n9']) {
        const { code, stderr } = await cli('restore', file, ...at, '--keep-worker', name);
        assert.equal(code, EXIT_USAGE, stderr);
        assert.match(stderr, /backup-worker-unknown/);
        assert.match(stderr, /the workers in the backup are n2, n3/);
      }
      assert.equal(await cluster.sh('n5', 'ls /var/lib/cluster/init/request.json 2>/dev/null || true'), '');
    },
  );

  await story.test('the worker returns to the restored cluster by itself', async (step) => {
    const flags = [...at, '--keep-worker', 'n2', '--keep-worker', 'n3'];
    const restored = await cliJson<{ epoch: number; keptWorkers: readonly string[] }>(
      bench,
      ...['--workspace', workspace, 'restore', file, ...flags],
    );
    assert.deepEqual([restored.epoch, restored.keptWorkers], [2, ['n2', 'n3']]);
    const from = performance.now();
    await eventually(
      'n2 reports to the restored cluster',
      RETURN_SECONDS,
      () => bench.must('--workspace', workspace, 'node', 'ls'),
      (text) => /^n2 +Healthy +Ready/m.test(text),
    );
    step.diagnostic(`n2 reported ${Math.round((performance.now() - from) / 1000)} s after the command`);
    const listed = await must('node', 'ls', '--removed');
    assert.match(listed, / n1 /);
    assert.doesNotMatch(listed, / n[23] /);
  });

  await story.test('the returned worker names the member that was removed after the backup', async () => {
    const removals = async (): Promise<readonly { readonly cause: string }[]> => {
      const { stdout } = await cli('doctor', '--output', 'json');
      const last = stdout.trim().split('\n').at(-1) ?? '{}';
      const { data } = JSON.parse(last) as { data?: { problems?: { code: string; cause: string }[] } };
      return (data?.problems ?? []).filter(({ code }) => code === 'doctor-removal-unmerged');
    };
    const [problem] = await eventually(
      'cluster doctor names the member',
      KNOWN_SECONDS,
      removals,
      (found) => found.length > 0,
    );
    assert.equal(problem?.cause, 'n2 knows that n3 was removed before the restore');
    await must('node', 'remove', '--yes', 'n3', '--lost');
    await eventually(
      'cluster doctor names it no more',
      KNOWN_SECONDS,
      removals,
      (found) => found.length === 0,
    );
    await cluster.allReady(['n2', 'n5'], RETURN_SECONDS, 'n5');
  });

  await story.test(
    'the restored cluster refuses the machine of whose removal only the worker knows',
    async () => {
      const listed = await eventually(
        'the worker reports the removal',
        KNOWN_SECONDS,
        () => must('node', 'ls', '--removed'),
        (text) => text.includes(removed),
      );
      assert.match(listed, new RegExp(`^${removed} +n4 +kept-worker:n2 +no `, 'm'));
      await cluster.start('n4');
      await resetOnMachine(cluster, 'n4');
      await reprovision(cluster, 'n4', ({ cluster: _, ...rest }) => ({ ...rest, joinEndpoints: [endpoint] }));
      await eventually(
        'the machine is refused because it was removed',
        90,
        () => must('node', 'ls', '--joins', '--output', 'json'),
        (text) => text.includes('join-decommissioned'),
      );
    },
  );

  await story.test('its pods are the same, in the same containers', async () => {
    const now = new Set((await podsOnWorker('n5')).split('\n'));
    // CoreDNS of the lost machine may have been started on n2 as well.
    for (const pod of before.split('\n')) assert.ok(now.has(pod), `${pod} of ${[...now].join(', ')}`);
  });

  await story.test('its kubelet and kube-proxy follow the restored cluster', async () => {
    await cluster.sh(
      'n5',
      `kubectl -n ${namespace} expose deployment hello --name after --port 80 --target-port 8080 >/dev/null`,
    );
    const address = await cluster.sh(
      'n5',
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
