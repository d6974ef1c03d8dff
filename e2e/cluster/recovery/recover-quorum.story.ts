import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { startApiCounter } from '../harness/api-counter.ts';
import { dnsIsDistributed, eventually } from '../harness/node-shell.ts';
import { RecoveringCluster } from './recovering-cluster.ts';
import { ApiFollower } from './api-follower.ts';
import { unblockTraffic, setPeerTraffic, processesOf, blockTraffic } from '../harness/machine-network.ts';

const NAME = 'recover';
const CONTROL_PLANES = ['n1', 'n2', 'n3'];
const OTHERS = ['n2', 'n3'];
const ALL = [...CONTROL_PLANES, 'n4'];
const EXIT = { usage: 2, precondition: 5 } as const;
const BUMP = 1_000_000_000;
/** Twice the interval at which an etcd member asks the others for their recovery epoch. */
const TWO_LOOKS_MS = 21_000;

await test('a cluster that lost its quorum recovers from the remaining control plane', async (story) => {
  await using bench = await createHarness();
  const cluster = await RecoveringCluster.up(bench, NAME);
  const { machines, kubeconfig } = cluster;
  const survivor = cluster.etcdOf('n1');
  const others = OTHERS.map((each) => cluster.hostOf(each));

  // A pod that runs on the worker.
  await machines.sh('n1', 'kubectl create deployment work --image=cluster.local/web:0.1.0');
  await machines.sh('n1', 'kubectl rollout status deployment work --timeout=90s');
  await machines.allReady(ALL, 60);
  await dnsIsDistributed((...args) => machines.run('n1', 'kubectl', ...args));
  // The first command stores the addresses of all curators in the workspace.
  await cluster.healthy(60);
  const memberNames = await survivor.members();
  const before = {
    keys: await Promise.all(ALL.map((each) => machines.nodeKey(each))),
    etcd: await survivor.status(),
  };
  // Writes through the API server of the survivor until the end; no acknowledged write may be lost.
  await using counter = await startApiCounter(kubeconfig, [cluster.hostOf('n1')]);
  // Follows the API servers of all three control planes, and must forget writes that the recovery drops.
  await using follower = await ApiFollower.of(kubeconfig, [
    cluster.hostOf('n2'),
    cluster.hostOf('n3'),
    cluster.hostOf('n1'),
  ]);
  await cluster.write('n1', 'kept', '1');
  await cluster.cli('node', 'label', 'n4', 'kept=1');

  await story.test(
    'cluster recover quorum refuses a member that is cut off from its peers while they have a leader',
    async (step) => {
      await eventually(
        'the counter counts',
        30,
        async () => counter.seen().acknowledged,
        (count) => count > 5,
      );
      await setPeerTraffic(machines, 'n1', 'I');
      await eventually(
        'the others have a leader, and n1 has none',
        60,
        () => cluster.recover(),
        ({ survey }) => survey?.own.hasLeader === false && survey.others.every(({ hasLeader }) => hasLeader),
      );
      await cluster.write('n2', 'lost', '1');
      // The CLI skips the curator that is cut off.
      const labelled = await cluster.cli('node', 'label', 'n4', 'lost=1');
      assert.equal(labelled.code, 0, labelled.stderr);
      assert.doesNotMatch((await cluster.cli('status')).stdout, /LOST/);
      await eventually('the follower sees the write', 30, async () => follower.knows('lost'), Boolean);
      const traces = await survivor.traces();
      const { exit, code, said, survey } = await cluster.recover('--confirm', NAME);
      assert.deepEqual([exit, code], [EXIT.precondition, 'recover-refused'], said);
      assert.match(said, /its quorum is not lost/);
      for (const { raftIndex = 0 } of survey?.others ?? [])
        assert.ok(raftIndex > (survey?.own.raftIndex ?? Infinity), said);
      assert.equal(await survivor.traces(), traces);
      step.diagnostic(
        `n1 at ${survey?.own.raftIndex}, the others at ${survey?.others.map(({ raftIndex }) => raftIndex).join(', ')}`,
      );
    },
  );

  await story.test(
    'cluster recover quorum on the older of two members names the more recent one',
    async () => {
      await machines.cutPower('n3');
      const traces = await survivor.traces();
      const { exit, said } = await eventually(
        'etcd has no leader',
        60,
        () => cluster.recover('--confirm', NAME),
        ({ survey }) => survey?.others.every(({ hasLeader }) => !hasLeader) === true,
      );
      assert.equal(exit, EXIT.precondition, said);
      assert.match(
        said,
        new RegExp(
          `${cluster.hostOf('n2')}:23(79|82) is at raft index \\d+, this member at \\d+: recover from`,
        ),
      );
      assert.equal(await survivor.traces(), traces);
    },
  );

  await story.test(
    'cluster status reports the lost quorum when both other control planes are off',
    async () => {
      await machines.cutPower('n2');
      await setPeerTraffic(machines, 'n1', 'D');
      await cluster.quorumLost();
    },
  );

  await story.test(
    'cluster recover quorum without the right cluster name shows what would be lost and changes nothing',
    async () => {
      const traces = await survivor.traces();
      const running = await processesOf(machines, 'n4');
      for (const flags of [
        [],
        ['--confirm', `${NAME}s`],
        ['--confirm', NAME.toUpperCase()],
        ['--confirm', ''],
      ]) {
        const { exit, code, said, survey } = await cluster.recover(...flags);
        assert.deepEqual([exit, code], [EXIT.usage, 'recover-not-confirmed'], said);
        assert.deepEqual([survey?.clusterName, survey?.epoch, survey?.refusals], [NAME, 1, []]);
        const index = (await survivor.status()).raftIndex;
        assert.equal(survey?.own.raftIndex, index);
        assert.deepEqual(
          survey?.others.map(({ raftIndex }) => raftIndex),
          [undefined, undefined],
        );
        assert.ok(
          survey?.losses.some((loss) => loss.includes(`after raft index ${index} of this member`)),
          said,
        );
        for (const other of OTHERS)
          assert.ok(
            survey?.losses.some((loss) => loss.includes(`only ${cluster.hostOf(other)}`)),
            said,
          );
      }
      assert.equal(await survivor.traces(), traces);
      assert.equal(await processesOf(machines, 'n4'), running);
    },
  );

  const running = {
    n1: await processesOf(machines, 'n1'),
    n4: await processesOf(machines, 'n4', ['bootstrapper', 'cluster-apilb']),
  };
  const counted = counter.seen().acknowledged;

  await story.test(
    'cluster recover quorum makes the survivor the only member of a new etcd with the next epoch and much higher revisions',
    async (step) => {
      const startMs = Date.now();
      const { exit, said, result } = await cluster.recover('--confirm', NAME);
      assert.equal(exit, 0, said);
      assert.deepEqual([result?.epoch, result?.own.hasLeader], [2, true]);
      step.diagnostic(`recovered in ${Date.now() - startMs} ms`);
      const now = await survivor.status();
      assert.equal((await survivor.members()).length, 1);
      assert.ok(
        memberNames.includes((await survivor.members())[0] ?? ''),
        'the etcd member keeps the name of its node',
      );
      assert.notEqual(now.clusterId, before.etcd.clusterId);
      assert.ok(now.revision > before.etcd.revision + BUMP, `${now.revision}`);
      assert.match((await survivor.refusalAt(before.etcd.revision + 1)) ?? '', /compacted/);
      assert.equal(await survivor.epoch(), 2);
      const state = cluster.etcdOf('n1', 'state');
      assert.deepEqual([result?.state.epoch, await state.epoch(), (await state.members()).length], [2, 2, 1]);
      assert.match(
        await machines.run('n1', 'ls', '/var/lib/cluster/consensus/kubernetes/recovery'),
        /^before-2-\d+$/m,
      );
      await eventually(
        'its API server serves',
        120,
        () => cluster.seenAt('n1', 'kept'),
        (x) => x === '1',
      );
      assert.equal(await cluster.seenAt('n1', 'lost'), undefined);
      step.diagnostic(`the API after ${Date.now() - startMs} ms`);
      const labels = await cluster.labelsOf('n4');
      assert.deepEqual([labels['kept'], labels['lost']], ['1', undefined]);
      assert.ok((await counter.read()) >= counted);
    },
  );

  await story.test(
    'clients list again after the recovery and forget lost objects, and no pod process or kubelet restarts',
    async () => {
      await cluster.write('n1', 'after', '1');
      await eventually('the follower sees a new object', 60, async () => follower.knows('after'), Boolean);
      assert.ok(
        follower.refusals.length > 0,
        'the API server reported that the version of the follower is too old',
      );
      assert.deepEqual([follower.knows('lost'), follower.knows('kept')], [false, true]);
      await eventually(
        'the counter goes on',
        60,
        async () => counter.seen().acknowledged,
        (count) => count > counted,
      );
      assert.equal(await processesOf(machines, 'n1'), running.n1);
      assert.equal(await processesOf(machines, 'n4', ['bootstrapper', 'cluster-apilb']), running.n4);
      // These steps need controllers, scheduler, kubelet and kube-proxy to work with the new etcd.
      await machines.sh('n1', 'kubectl expose deployment work --type=NodePort --port=80 --target-port=8080');
      const port = await machines.sh('n1', 'kubectl get service work -o jsonpath={.spec.ports[0].nodePort}');
      await eventually(
        'the worker forwards connections to a new service',
        60,
        async () => (await fetch(`http://${cluster.hostOf('n4')}:${port}/`)).status,
        (status) => status === 200,
      );
      await machines.sh('n1', 'kubectl scale deployment work --replicas=2');
      await machines.sh('n1', 'kubectl rollout status deployment work --timeout=90s');
      await machines.cliJson('node', 'label', 'n4', 'after=1');
      assert.equal((await cluster.labelsOf('n4'))['after'], '1');
      await cluster.health('Healthy', ['n1', 'n4']);
    },
  );

  await story.test(
    'the old majority serves only its own data until it reaches the survivor, then deletes that data and joins the survivor',
    async (step) => {
      await blockTraffic(machines, ['n1', 'n4'], others);
      await Promise.all(OTHERS.map((each) => machines.start(each)));
      for (const each of OTHERS)
        await eventually(
          `the etcd of ${each} serves`,
          120,
          () => cluster.etcdOf(each).members(),
          (members) => members.length === 3,
        );
      await eventually(
        'the API server of n2 serves',
        180,
        () => cluster.seenAt('n2', 'lost'),
        (x) => x === '1',
      );
      await cluster.write('n1', 'kept', '2');
      await using theirs = await ApiFollower.of(kubeconfig, others);
      await cluster.write('n2', 'island', '1');
      await cluster.write('n2', 'kept', 'island');
      await eventually(
        'the second follower sees a write to the old majority',
        30,
        async () => theirs.knows('island'),
        Boolean,
      );
      const startMs = Date.now();
      await eventually(
        'the old members have had time to ask for the epoch twice',
        60,
        async () => Date.now() - startMs,
        (ms) => ms > TWO_LOOKS_MS,
      );
      for (const each of OTHERS) {
        assert.equal((await cluster.etcdOf(each).status()).clusterId, before.etcd.clusterId);
        assert.equal(await cluster.etcdOf(each).epoch(), 1);
      }
      assert.equal((await survivor.members()).length, 1);
      assert.deepEqual(
        [await cluster.seenAt('n1', 'kept'), await cluster.seenAt('n1', 'island')],
        ['2', undefined],
      );

      const untouched = await Promise.all(OTHERS.map((each) => processesOf(machines, each)));
      const healedMs = Date.now();
      await unblockTraffic(machines, ['n1', 'n4'], others);
      await eventually(
        'three voters',
        180,
        async () => (await survivor.members()).toSorted().join(),
        (now) => now === memberNames.toSorted().join(),
      );
      step.diagnostic(`three voters ${Date.now() - healedMs} ms after the partition healed`);
      await eventually('the second follower lists again', 90, async () => theirs.knows('after'), Boolean);
      assert.deepEqual([theirs.knows('island'), theirs.knows('lost')], [false, false]);
      assert.ok(theirs.refusals.length > 0);
      for (const each of OTHERS)
        assert.match(await machines.log(each), /missed a recovery[\s\S]*deleting its data/);
      assert.deepEqual(await Promise.all(OTHERS.map((each) => processesOf(machines, each))), untouched);
    },
  );

  await story.test(
    'all control planes have the same data, and no acknowledged write of the survivor is lost',
    async () => {
      const { clusterId, revision } = await survivor.status();
      const hash = async (each: string): Promise<string> => cluster.etcdOf(each).hashAt(revision);
      for (const each of OTHERS) {
        assert.equal((await cluster.etcdOf(each).status()).clusterId, clusterId);
        // A member that has just joined writes its epoch after it serves.
        for (const name of ['kubernetes', 'state'] as const)
          await eventually(
            `${each} has the epoch of the recovery (${name})`,
            60,
            () => cluster.etcdOf(each, name).epoch(),
            (epoch) => epoch === 2,
          );
        assert.equal(await hash(each), await hash('n1'));
      }
      for (const each of CONTROL_PLANES) {
        const seen = await eventually(
          `the API server of ${each} has the new object`,
          90,
          async () =>
            Promise.all(['kept', 'after', 'lost', 'island'].map((name) => cluster.seenAt(each, name))),
          (now) => now[1] === '1',
        );
        assert.deepEqual(seen, ['2', '1', undefined, undefined], each);
      }
      const { acknowledged, lost } = counter.seen();
      assert.deepEqual(lost, []);
      for (const each of CONTROL_PLANES) {
        await using other = await startApiCounter(kubeconfig, [cluster.hostOf(each)]);
        assert.ok((await other.read()) >= acknowledged);
      }
      assert.deepEqual(await Promise.all(ALL.map((each) => machines.nodeKey(each))), before.keys);
      assert.equal(await machines.members(), ALL.length);
      await machines.allReady(ALL, 120);
      await cluster.healthy(120);
    },
  );

  await story.test(
    'after a second recovery both lost control planes are removed, and survivor and worker stay a healthy cluster',
    async () => {
      for (const each of OTHERS) await machines.cutPower(each);
      await cluster.quorumLost();
      const { exit, said, result } = await cluster.recover('--confirm', NAME);
      assert.deepEqual([exit, result?.epoch], [0, 3], said);
      await eventually(
        'its API server serves',
        120,
        () => cluster.seenAt('n1', 'kept'),
        (x) => x === '2',
      );
      await cluster.health('NotResponding', OTHERS);
      for (const each of OTHERS) {
        const removed = await cluster.cli('node', 'remove', '--yes', each, '--lost', '--keep-keys');
        assert.equal(removed.code, 0, removed.stderr);
      }
      assert.equal(await machines.members(), 2);
      assert.equal((await survivor.members()).length, 1);
      await eventually(
        'the worker knows one control plane',
        30,
        () => machines.run('n4', 'cat', '/var/lib/cluster/membership/directory.json'),
        (text) => OTHERS.every((each) => !text.includes(cluster.hostOf(each))),
      );
      await machines.allReady(['n1', 'n4'], 60);
      await cluster.healthy(180);
      assert.deepEqual(counter.seen().lost, []);
    },
  );
});
