import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { addMachine } from '../harness/add-machine.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';
import { blockTraffic, unblockTraffic } from '../harness/machine-network.ts';
import { cliJson, reprovision, StoryCluster } from '../harness/story-cluster.ts';
import { InitRun } from '../init/init-run.ts';
import { ApiFollower } from '../recovery/api-follower.ts';
import { readNodeWatcher, startNodeWatcher } from './node-watcher.ts';
import { contentHash, createObjects, resetOnMachine } from './restored-objects.ts';

const NAME = 'restore3';
const OBJECTS = 2000;
/** They stay off, or come back with what they know. */
const GONE = ['n1', 'n2', 'n4'] as const;
const OLD_CONTROL_PLANES = ['n1', 'n2'] as const;
/** An old control plane that is reset, and becomes a control plane of the restored cluster. */
const OLD_HARDWARE = 'n3';
/** An old worker that lives through the loss, with its kubelet, its kube-proxy and a client. */
const KEPT = 'n5';
const CONTROL_PLANES = ['n6', 'n7', OLD_HARDWARE] as const;
const MACHINES = ['n3', 'n5', 'n6', 'n7'] as const;
/** From the file to three ready control planes, with the readmission of the old machine. */
const RESTORE_SECONDS = 180;
/** From the readmission of a node, for everything on it that watches. */
const WATCH_SECONDS = 60;
/** Heartbeats, and connections of agents to the curators that they know, come every few seconds. */
const SEEN_SECONDS = 40;

interface Restored {
  readonly clusterId: string;
  readonly epoch: number;
  readonly joined: readonly string[];
  readonly keptWorkers: readonly string[];
}

await test('a cluster of five machines is restored from one file onto three machines, one of them old hardware', async (story) => {
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
  const [first, ...others] = CONTROL_PLANES;
  await addMachine(bench, local, { name: first, like: 'n1', joinEndpoints: [] });
  const joinEndpoints = [`${await cluster.address(first)}:9090`];
  await addMachine(bench, local, { name: 'n7', like: 'n1', joinEndpoints });
  const at = ['--node', await cluster.address(first), '--fingerprint', await cluster.fingerprint(first)];

  // These clients live through the loss and the restore. They know the addresses of old and new machines.
  const hosts = await Promise.all(['n1', 'n2', ...CONTROL_PLANES].map((name) => cluster.address(name)));
  await copyFile(join(workspace, 'kubeconfig'), kubeconfig);
  await using oneWatcher = await ApiFollower.of(kubeconfig, hosts);
  await using otherWatcher = await ApiFollower.of(kubeconfig, hosts.toReversed());
  const watchers = [oneWatcher, otherWatcher];
  let restoredMs = 0;
  for (const watcher of watchers)
    await eventually(
      'a watcher has listed the objects',
      30,
      () => Promise.resolve(watcher.knows('last-before-the-backup')),
      (isKnown) => isKnown,
    );

  await startNodeWatcher(cluster, KEPT, await readFile(kubeconfig, 'utf8'));
  const onKept = (object: string) => readNodeWatcher(cluster, KEPT, object);
  await eventually(
    'the client on the kept worker has listed the objects',
    30,
    () => onKept('last-before-the-backup'),
    ({ knows }) => knows,
  );
  const proxy = await pidOfProxy(cluster);
  assert.match(proxy, /^[0-9]+$/);

  for (const machine of [...GONE, OLD_HARDWARE]) await cluster.cutPower(machine);
  await cluster.start(OLD_HARDWARE);
  await resetOnMachine(cluster, OLD_HARDWARE);
  await reprovision(cluster, OLD_HARDWARE, ({ cluster: _, ...rest }) => ({ ...rest, joinEndpoints }));
  await reprovision(cluster, KEPT, (rest) => ({ ...rest, joinEndpoints }));
  for (const name of others) at.push('--control-plane', `${name}=${await cluster.fingerprint(name)}`);
  at.push('--keep-worker', KEPT);
  await copyFile(join(workspace, 'owner-key.pem'), ownerKey);
  for (const name of await readdir(workspace)) await rm(join(workspace, name), { recursive: true });

  await story.test(
    'one command makes two fresh machines and an old one the control planes of the same cluster',
    async (step) => {
      const from = performance.now();
      const flags = [...at, '--owner-key', ownerKey, '--yes'];
      const run = new InitRun(bench, ['--workspace', workspace, 'restore', file, ...flags]);
      // The old machine was removed with all others, so that the owner has to readmit it.
      const asked = await run.until(({ text = '' }) =>
        /was removed before: run `cluster node readmit/.test(text),
      );
      const identity = /node readmit (\S+)`/.exec(asked?.text ?? '')?.[1];
      assert.ok(identity, run.said());
      await bench.must('--workspace', workspace, 'node', 'readmit', identity);
      assert.equal(await run.ended, 0, run.said());
      restoredMs = performance.now();
      const restored = run.outcome()?.data as Restored;
      const seconds = secondsSince(from);
      step.diagnostic(
        `from the file to ${CONTROL_PLANES.length} ready control planes: ${seconds} s (limit ${RESTORE_SECONDS} s)`,
      );
      assert.deepEqual([restored.clusterId, restored.epoch, restored.joined], [clusterId, 2, [...others]]);
      assert.deepEqual(restored.keptWorkers, [KEPT]);
      assert.equal((await membersOf(cluster, first)).length, 2 * CONTROL_PLANES.length);
      assert.ok(seconds <= RESTORE_SECONDS, `${seconds} s`);
    },
  );

  await story.test('every control plane has every object of the backup, with the same content', async () => {
    for (const machine of CONTROL_PLANES)
      assert.equal(await contentHash(cluster, machine, OBJECTS), before, machine);
    await cluster.sh(first, 'kubectl get configmap last-before-the-backup');
  });

  await story.test(
    'a kept worker returns, and its kube-proxy and all clients that lived through it list again and see new objects',
    async (step) => {
      await cluster.allReady(MACHINES, WATCH_SECONDS, first);
      const from = performance.now();
      step.diagnostic(`the kept worker was Ready ${secondsSince(restoredMs)} s after the command`);
      const namespace = await cluster.sh(
        first,
        `kubectl get deployments -A -o jsonpath='{.items[?(@.metadata.name=="hello")].metadata.namespace}'`,
      );
      await cluster.sh(
        first,
        `kubectl create configmap first-after-the-restore >/dev/null
         kubectl -n ${namespace} expose deployment hello --name after --port 80 --target-port 8080 >/dev/null`,
      );
      const address = await cluster.sh(
        first,
        `kubectl -n ${namespace} get service after -o jsonpath='{.spec.clusterIP}'`,
      );
      const timed = async (what: string, ask: () => Promise<boolean>): Promise<void> => {
        await eventually(what, WATCH_SECONDS, ask, (isSo) => isSo);
        step.diagnostic(`${what}: ${secondsSince(from)} s after its node was Ready`);
      };
      const connect = `exec 3<>/dev/tcp/${address}/80`;
      await Promise.all([
        ...watchers.map((watcher, index) =>
          timed(`client ${index + 1} of the API servers sees a new object`, () =>
            Promise.resolve(watcher.knows('first-after-the-restore')),
          ),
        ),
        timed(
          'the client on the kept worker sees a new object',
          async () => (await onKept('first-after-the-restore')).knows,
        ),
        timed(
          'kube-proxy of the kept worker forwards to a new Service',
          async () => (await cluster.try(KEPT, 'timeout', '2', 'bash', '-c', connect)).code === 0,
        ),
      ]);
      for (const watcher of watchers) {
        assert.ok(watcher.refusals.length > 0, 'its old version was refused');
        assert.ok(watcher.knows(`o${OBJECTS}`));
      }
      const { knows, refusals } = await onKept(`o${OBJECTS}`);
      assert.ok(knows);
      assert.ok(refusals > 0, 'the old version of the client on the kept worker was refused');
      assert.equal(await pidOfProxy(cluster), proxy, 'kube-proxy was restarted');
    },
  );

  await story.test(
    'an old worker joins after its reset and readmission, and the application runs',
    async (step) => {
      const from = performance.now();
      await cluster.start('n4');
      await resetOnMachine(cluster, 'n4');
      await reprovision(cluster, 'n4', ({ cluster: _, ...rest }) => ({ ...rest, joinEndpoints }));
      await bench.must('--workspace', workspace, 'node', 'readmit', 'n4');
      await cluster.allReady(['n4', ...MACHINES].toSorted(), 180, first);
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
    assert.deepEqual(wanted.seen.toSorted(), ['n4', ...MACHINES].toSorted());
    // They are a quorum of the old cluster, with the old keys. They reach no machine of the restored one that they know.
    const known = await Promise.all([OLD_HARDWARE, KEPT, 'n4'].map((name) => cluster.address(name)));
    for (const machine of OLD_CONTROL_PLANES) {
      await cluster.start(machine);
      await cluster.sh(machine, 'systemctl stop bootstrapper');
      await blockTraffic(cluster, [machine], known);
      await cluster.sh(machine, 'systemctl start bootstrapper');
    }
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
      for (const machine of CONTROL_PLANES)
        assert.match(await cluster.sh(machine, found), /not found/, machine);
    }
    // Now they reach it, see the newer epoch, and do not join: nobody has readmitted them.
    await unblockTraffic(cluster, OLD_CONTROL_PLANES, known);
    for (const machine of OLD_CONTROL_PLANES)
      await eventually(
        `${machine} does not join the restored cluster`,
        90,
        () => cluster.log(machine),
        (text) => text.includes('has no record of this node'),
      );
    assert.deepEqual(await state(), wanted);
    const ready = await cluster.readiness(first);
    for (const machine of ['n4', ...MACHINES]) assert.match(ready, new RegExp(`${machine}=True`));
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
      await cluster.allReady(['n4', ...MACHINES].toSorted(), 120, first);
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

/** The process of kube-proxy on the kept worker. */
function pidOfProxy(cluster: StoryCluster): Promise<string> {
  return cluster.sh(
    KEPT,
    'for each in /proc/[0-9]*; do if [ "$(cat $each/comm 2>/dev/null)" = kube-proxy ]; then echo ${each#/proc/}; fi; done',
  );
}
