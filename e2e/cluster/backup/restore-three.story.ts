import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { addMachine } from '../harness/add-machine.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';
import { cliJson, reprovision, StoryCluster } from '../harness/story-cluster.ts';
import { ApiFollower } from '../recovery/api-follower.ts';
import { contentHash, createObjects, resetOnMachine } from './restored-objects.ts';

const NAME = 'restore3';
const OBJECTS = 2000;
const OLD = ['n1', 'n2', 'n3', 'n4', 'n5'] as const;
const FRESH = ['n6', 'n7', 'n8'] as const;
/** From the file to three ready control planes. */
const RESTORE_SECONDS = 180;
const WATCH_SECONDS = 60;
/** Heartbeats, and connections of agents to the curators that they know, come every few seconds. */
const SEEN_SECONDS = 40;

interface Restored {
  readonly clusterId: string;
  readonly epoch: number;
  readonly joined: readonly string[];
}

await test('a cluster of five machines is restored from one file onto three fresh machines', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '2', '--demo');
  const workspace = await cluster.workspace();
  const kept = await mkdtemp(join(tmpdir(), 'cluster-kept-'));
  await using _kept = { [Symbol.asyncDispose]: () => rm(kept, { recursive: true, force: true }) };
  const [file, ownerKey, kubeconfig] = ['three.backup', 'owner-key.pem', 'kubeconfig'].map((name) =>
    join(kept, name),
  ) as [string, string, string];
  await createObjects(cluster, 'n1', OBJECTS);
  await cluster.sh('n1', 'kubectl create configmap last-before-the-backup >/dev/null');
  const before = await contentHash(cluster, 'n1', OBJECTS);
  const takenFrom = performance.now();
  const { clusterId } = await cliJson<Restored>(
    bench,
    ...['--workspace', workspace, 'backup', 'create', '--to', file],
  );
  story.diagnostic(`backup of ${OBJECTS} objects: ${secondsSince(takenFrom)} s`);

  const local = await bench.cluster(NAME);
  const [first, ...others] = FRESH;
  await addMachine(bench, local, { name: first, like: 'n1', joinEndpoints: [] });
  const joinEndpoints = [`${await cluster.address(first)}:9090`];
  for (const name of others) await addMachine(bench, local, { name, like: 'n1', joinEndpoints });
  const at = ['--node', await cluster.address(first), '--fingerprint', await cluster.fingerprint(first)];
  for (const name of others) at.push('--control-plane', `${name}=${await cluster.fingerprint(name)}`);

  // These clients live through the loss and the restore. They know the addresses of old and new machines.
  const hosts = await Promise.all(['n1', 'n2', ...FRESH].map((name) => cluster.address(name)));
  await copyFile(join(workspace, 'kubeconfig'), kubeconfig);
  await using oneWatcher = await ApiFollower.of(kubeconfig, hosts);
  await using otherWatcher = await ApiFollower.of(kubeconfig, hosts.toReversed());
  const watchers = [oneWatcher, otherWatcher];
  for (const watcher of watchers)
    await eventually(
      'a watcher has listed the objects',
      30,
      () => Promise.resolve(watcher.knows('last-before-the-backup')),
      (isKnown) => isKnown,
    );

  for (const machine of OLD) await cluster.cutPower(machine);
  await copyFile(join(workspace, 'owner-key.pem'), ownerKey);
  for (const name of await readdir(workspace)) await rm(join(workspace, name), { recursive: true });

  await story.test(
    'one command makes the fresh machines the control planes of the same cluster',
    async (step) => {
      const from = performance.now();
      const flags = [...at, '--owner-key', ownerKey, '--yes'];
      const restored = await cliJson<Restored>(bench, '--workspace', workspace, 'restore', file, ...flags);
      const seconds = secondsSince(from);
      step.diagnostic(
        `from the file to ${FRESH.length} ready control planes: ${seconds} s (limit ${RESTORE_SECONDS} s)`,
      );
      assert.deepEqual([restored.clusterId, restored.epoch, restored.joined], [clusterId, 2, [...others]]);
      await cluster.allReady(FRESH, 30, first);
      assert.equal((await membersOf(cluster, first)).length, 2 * FRESH.length);
      assert.ok(seconds <= RESTORE_SECONDS, `${seconds} s`);
    },
  );

  await story.test('every control plane has every object of the backup, with the same content', async () => {
    for (const machine of FRESH) assert.equal(await contentHash(cluster, machine, OBJECTS), before, machine);
    await cluster.sh(first, 'kubectl get configmap last-before-the-backup');
  });

  await story.test('watchers that lived through it list again and see new objects', async (step) => {
    const from = performance.now();
    await cluster.sh(first, 'kubectl create configmap first-after-the-restore >/dev/null');
    for (const watcher of watchers) {
      await eventually(
        'a watcher sees a new object of the restored cluster',
        WATCH_SECONDS,
        () => Promise.resolve(watcher.knows('first-after-the-restore')),
        (isKnown) => isKnown,
      );
      assert.ok(watcher.refusals.length > 0, 'its old version was refused');
      assert.ok(watcher.knows(`o${OBJECTS}`));
    }
    step.diagnostic(`both watchers saw a new object after ${secondsSince(from)} s`);
  });

  await story.test(
    'an old worker joins after its reset and readmission, and the application runs',
    async (step) => {
      const from = performance.now();
      await cluster.start('n4');
      await resetOnMachine(cluster, 'n4');
      await reprovision(cluster, 'n4', ({ cluster: _, ...rest }) => ({ ...rest, joinEndpoints }));
      await bench.must('--workspace', workspace, 'node', 'readmit', 'n4');
      await cluster.allReady(['n4', ...FRESH], 180, first);
      await eventually(
        'the sample application is available',
        120,
        () => cluster.sh(first, 'kubectl get pods -A -o wide'),
        (text) => /hello-\S+ +1\/1 +Running/.test(text),
      );
      step.diagnostic(`from the start of the old worker to the application: ${secondsSince(from)} s`);
    },
  );

  await story.test('old control planes that come back change nothing in the restored cluster', async () => {
    const state = async () => ({
      members: await membersOf(cluster, first),
      nodes: await cluster.sh(first, 'kubectl get nodes -o name | sort'),
      records: await cluster.members(first),
      content: await contentHash(cluster, first, OBJECTS),
      seen: (await cluster.cliJson<{ nodes: readonly { readonly name: string }[] }>('node', 'ls')).nodes.map(
        ({ name }) => name,
      ),
    });
    const wanted = await state();
    assert.deepEqual(wanted.seen, ['n4', ...FRESH]);
    // They are a quorum of the old cluster, with the old keys, and reach every machine of the restored one.
    for (const machine of OLD.slice(0, 3)) await cluster.start(machine);
    await eventually(
      'the old control planes serve for themselves',
      180,
      () => cluster.sh('n1', 'kubectl create configmap written-to-the-old-cluster'),
      (text) => text.includes('created'),
    );
    const untilMs = performance.now() + SEEN_SECONDS * 1000;
    while (performance.now() < untilMs) {
      assert.deepEqual(await state(), wanted);
      const found = 'kubectl get configmap written-to-the-old-cluster 2>&1 || true';
      for (const machine of FRESH) assert.match(await cluster.sh(machine, found), /not found/, machine);
    }
    const ready = await cluster.readiness(first);
    for (const machine of ['n4', ...FRESH]) assert.match(ready, new RegExp(`${machine}=True`));
  });

  await story.test(
    'cluster keys rotate replaces the keys of the backup while the old control planes run',
    async (step) => {
      const content = await contentHash(cluster, first, OBJECTS);
      const from = performance.now();
      const rotated = await cluster.cliJson<{ isDone: boolean; proofs: readonly unknown[] }>(
        ...['keys', 'rotate', '--yes', '--reason', 'restored'],
      );
      step.diagnostic(`the keys were replaced in ${secondsSince(from)} s`);
      assert.equal(rotated.isDone, true);
      assert.notDeepEqual(rotated.proofs, []); // credentials of the old keys are refused
      await cluster.allReady(['n4', ...FRESH], 120, first);
      assert.equal(await contentHash(cluster, first, OBJECTS), content);
    },
  );
});

function secondsSince(fromMs: number): number {
  return Math.round((performance.now() - fromMs) / 1000);
}

/** IDs of the members of both etcd clusters. */
async function membersOf(cluster: StoryCluster, machine: string): Promise<readonly string[]> {
  const lists = await Promise.all(
    (['root', 'kubernetes-root'] as const).map((user) =>
      cluster.run(machine, ...etcdctlArgv(user), 'member', 'list'),
    ),
  );
  return lists
    .flatMap((list) => list.split('\n'))
    .map((line) => line.split(',')[0] ?? '')
    .toSorted();
}
