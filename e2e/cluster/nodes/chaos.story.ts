import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import { startApiCounter } from '../harness/api-counter.ts';
import { seededRandom } from '../faults/diagnose.ts';
import { ApiAvailability } from '../harness/api-availability.ts';
import { StoryCluster, READY } from '../harness/story-cluster.ts';
import { startLabelWriter } from '../harness/label-writer.ts';
import { dnsIsDistributed, eventually, NodeShell } from '../harness/node-shell.ts';
import { addMachine } from '../harness/add-machine.ts';
import { processesOf } from '../harness/machine-network.ts';

const NAME = 'rough';
const MACHINES = ['n1', 'n2', 'n3', 'n4', 'n5'] as const;
const CONTROL_PLANES = MACHINES.slice(0, 3);
/** Duration of the kills. `.ci/e2e` sets 1800 for the long suite. */
const CHAOS_SECONDS = Number(env['CHAOS_SECONDS'] ?? '240');
const ORDERS = Number(env['ORDERS'] ?? '3');
const seed = Number(env['CHAOS_SEED'] ?? Date.now() % 1_000_000);
const QUORUM_SECONDS = 60;
/** The parts of the story to run, separated by commas; a run of a single part takes only minutes. */
const PARTS = (env['ROUGH_PARTS'] ?? 'kills,orders,idle,lost').split(',');
/** Duration without any command or fault. `.ci/e2e` sets 600 for the long suite. */
const IDLE_SECONDS = Number(env['IDLE_SECONDS'] ?? '120');
const IDLE_LOOK_MS = 5_000;
/**
 * Time limit until everything is ready again. It covers the longest back-off (5 min) of a container that could not
 * start while the API server was off.
 */
const SETTLED_SECONDS = 300;
const SETTLED_LOOK_MS = 30_000;
/**
 * The longest accepted pause of the API. The election of a new etcd leader takes a second or two, and
 * kubelets and controllers tolerate longer pauses than this limit.
 */
const LONGEST_PAUSE_MS = 10_000;
const REPLACEMENT = 'n6';

/** The units that the story kills, and the machines on which each of them runs. */
const VICTIMS = [
  ...MACHINES.flatMap((machine) => [
    { machine, unit: 'bootstrapper' },
    { machine, unit: 'kubelet' },
  ]),
  ...CONTROL_PLANES.flatMap((machine) => [
    { machine, unit: 'cluster-joinservice' },
    { machine, unit: 'cluster-etcd-state' },
    { machine, unit: 'cluster-etcd-kubernetes' },
  ]),
];
const UNITS = [...new Set(VICTIMS.map(({ unit }) => unit))];
/** A shell command that kills the main process of a unit. It fails while the unit restarts and has no process. */
const killCommand = (unit: string): string =>
  `pid=$(systemctl show --property MainPID --value ${unit}) && [ "$pid" -gt 0 ] && kill -KILL "$pid"`;

await test(`a cluster of three control planes and two workers survives random kills and stops, seed ${seed}`, async (story) => {
  const random = seededRandom(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '2');
  const cluster = await bench.cluster(NAME);
  const { workspace } = cluster.paths;
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
  const shells = new Map(MACHINES.map((name) => [name, new NodeShell(bench, NAME, name)]));
  const shell = (name: (typeof MACHINES)[number]): NodeShell => shells.get(name) as NodeShell;
  await dnsIsDistributed((...args) => shell('n1').kubectl(...args));
  const hosts = await Promise.all(CONTROL_PLANES.map(async (name) => (await cluster.node(name)).address));

  /** @param onSinceMs when each machine was started: earlier reports of its kubelet do not count */
  const allFine = async (
    withinSeconds: number,
    onSinceMs: ReadonlyMap<string, number> = new Map(),
  ): Promise<void> => {
    const endMs = Date.now() + withinSeconds * 1000;
    const secondsLeft = (): number => Math.max(0, (endMs - Date.now()) / 1000);
    const isReadySince = (line: string): boolean => {
      const [name = '', status, saidAt = ''] = line.split(' ');
      return status === 'True' && Date.parse(saidAt) >= (onSinceMs.get(name) ?? 0);
    };
    await eventually(
      'all are Ready',
      secondsLeft(),
      () => shell('n1').kubectl('get', 'nodes', '--output', READY),
      (text) => text.split('\n').filter(isReadySince).length === MACHINES.length,
    );
    await eventually(
      'all are healthy',
      secondsLeft(),
      () => must('node', 'ls'),
      (table) => (table.match(/^\S+ +Healthy /gm) ?? []).length === MACHINES.length,
    );
    const members = await shell('n1').etcdctl('root', 'member', 'list');
    assert.equal(members.stdout.split('\n').filter((line) => /, started, .*, false$/.test(line)).length, 3);
  };

  if (PARTS.includes('kills'))
    await story.test(
      `kill -9 of agents, join services, etcd and kubelets for ${CHAOS_SECONDS} s: no acknowledged write is lost or undone`,
      async (step) => {
        await using counter = await startApiCounter(`${workspace}/kubeconfig`, hosts);
        await using labels = startLabelWriter(bench, workspace, 'n5');
        const endMs = Date.now() + CHAOS_SECONDS * 1000;
        const killCounts = new Map(UNITS.map((unit) => [unit, 0]));
        while (Date.now() < endMs) {
          const { machine, unit } = pick(VICTIMS);
          if ((await shell(machine).exitCode('sh', '-c', killCommand(unit))) === 0)
            killCounts.set(unit, (killCounts.get(unit) ?? 0) + 1);
          await delay(1_000 + random() * 5_000);
        }
        await allFine(120);
        await eventually(
          'the counter goes on',
          30,
          () => Promise.resolve(counter.seen().acknowledged),
          (() => {
            const { acknowledged } = counter.seen();
            return (now: number) => now > acknowledged;
          })(),
        );
        const counted = counter.seen();
        const labelled = await labels.end();
        const kills = [...killCounts].map(([unit, times]) => `${unit} ${times}`).join(', ');
        step.diagnostic(
          `killed: ${kills}; ${counted.acknowledged} counts (${counted.refused} refused), ${labelled.acknowledged} labels (${labelled.refused} refused)`,
        );
        for (const [unit, times] of killCounts) assert.ok(times > 0, `${unit} was killed`);
        assert.deepEqual(counted.lost, []);
        assert.deepEqual(labelled.lost, []);
        assert.ok((await counter.read()) >= counted.acknowledged);
        assert.ok(labelled.acknowledged > 0);
      },
    );

  for (let round = 1; round <= (PARTS.includes('orders') ? ORDERS : 0); round++) {
    const order = MACHINES.map((name) => ({ name, at: random() }))
      .toSorted((one, other) => one.at - other.at)
      .map(({ name }) => name);
    await story.test(
      `the cluster recovers after all machines were stopped and started in the order ${order.join(', ')}`,
      async (step) => {
        for (const name of order) await bench.must('mini', 'stop', '--name', NAME, '--power-cut', name);
        let running = 0;
        let quorumMs = 0;
        const onSinceMs = new Map<string, number>();
        for (const name of order) {
          // Kubernetes' times are whole seconds.
          onSinceMs.set(name, Math.floor(Date.now() / 1000) * 1000);
          await bench.must('mini', 'start', '--name', NAME, name);
          if (CONTROL_PLANES.includes(name)) running++;
          if (running === 2 && quorumMs === 0) quorumMs = Date.now();
        }
        await allFine(QUORUM_SECONDS - (Date.now() - quorumMs) / 1000, onSinceMs);
        step.diagnostic(`${Math.round((Date.now() - quorumMs) / 1000)} s after quorum`);
        const machines = new StoryCluster(bench, NAME);
        assert.equal(await machines.members(), MACHINES.length);
        const joined = (await machines.audit()).filter(({ detail }) => detail.verdict === 'joined');
        assert.equal(joined.length, MACHINES.length - 1, 'nobody was admitted again');
      },
    );
  }

  if (PARTS.includes('idle'))
    await story.test(
      `while the cluster is idle for ${IDLE_SECONDS} s, no node changes its condition and no process restarts`,
      async (step) => {
        await allFine(120);
        const machines = new StoryCluster(bench, NAME);
        const steady = async (): Promise<string> => {
          const processes = MACHINES.map((name) => {
            const units = CONTROL_PLANES.includes(name)
              ? ['cluster-etcd-state', 'cluster-etcd-kubernetes', 'cluster-joinservice']
              : [];
            return processesOf(machines, name, [...units, 'kubelet', 'cluster-containerd', 'bootstrapper']);
          });
          /** The creation revisions of all heartbeat keys. A node whose heartbeat lease expired creates its key again. */
          const heartbeats = async (): Promise<string> => {
            const got = await machines.etcdctl(
              'n1',
              'get',
              '--prefix',
              '/cluster/nodes/',
              '--write-out',
              'json',
            );
            const { kvs } = JSON.parse(got) as { kvs: { key: string; create_revision: number }[] };
            return kvs
              .map(
                ({ key, create_revision }) => `${Buffer.from(key, 'base64').toString()} ${create_revision}`,
              )
              .filter((line) => line.includes('/heartbeat '))
              .join('\n');
          };
          const conditions = `jsonpath={range .items[*].status.conditions[*]}{.type} {.status} {.lastTransitionTime}{"\\n"}{end}`;
          const { stdout } = await shell('n1').etcdctl('root', 'endpoint', 'status', '--write-out', 'fields');
          const term = /"RaftTerm" : \d+/.exec(stdout)?.[0];
          return [
            ...(await Promise.all(processes)),
            await shell('n1').kubectl('get', 'nodes', '--output', conditions),
            await heartbeats(),
            term,
          ].join('\n');
        };
        // After a restart of the machines, pods become ready later than their nodes.
        let before = await steady();
        await eventually(
          'no process restarts any more',
          SETTLED_SECONDS,
          async () => {
            const earlier = before;
            await delay(SETTLED_LOOK_MS);
            before = await steady();
            return before === earlier;
          },
          Boolean,
        );
        assert.match(before, /Ready True .*Z/);
        assert.match(before, /RaftTerm/);
        assert.equal(before.match(/\/heartbeat \d/g)?.length, MACHINES.length);
        const endMs = Date.now() + IDLE_SECONDS * 1000;
        let looks = 0;
        while (Date.now() < endMs) {
          const table = await must('node', 'ls');
          looks++;
          assert.equal((table.match(/^\S+ +Healthy /gm) ?? []).length, MACHINES.length, table);
          await delay(IDLE_LOOK_MS);
        }
        step.diagnostic(`${looks} looks, all healthy`);
        assert.equal(await steady(), before);
      },
    );

  if (PARTS.includes('lost'))
    await story.test(
      'replacing a lost control plane restarts no process on other nodes and loses no acknowledged write',
      async (step) => {
        const machines = new StoryCluster(bench, NAME);
        const left = MACHINES.filter((name) => name !== 'n3');
        /** Lines of "MACHINE NAME PID START". */
        const running = async (): Promise<readonly string[]> => {
          const units = ['kubelet', 'cluster-containerd', 'bootstrapper'];
          const each = left.map(async (name) => {
            const own = CONTROL_PLANES.includes(name)
              ? [...units, 'cluster-etcd-state', 'cluster-etcd-kubernetes']
              : units;
            const lines = await processesOf(machines, name, own);
            return lines.split('\n').map((line) => `${name} ${line}`);
          });
          return (await Promise.all(each)).flat();
        };
        const voters = async (): Promise<number> => {
          const { stdout } = await shell('n1').etcdctl('root', 'member', 'list');
          return stdout.split('\n').filter((line) => /, started, .*, false$/.test(line)).length;
        };
        const before = await running();
        const [one = '', other = ''] = hosts;
        await using first = new ApiAvailability(one);
        await using second = new ApiAvailability(other);
        await using counter = await startApiCounter(`${workspace}/kubeconfig`, [one, other]);
        await using labels = startLabelWriter(bench, workspace, 'n5');
        await bench.must('mini', 'stop', '--name', NAME, '--power-cut', 'n3');
        await eventually(
          'node ls shows n3 as NotResponding',
          90,
          () => must('node', 'ls'),
          (table) => /^n3 +NotResponding /m.test(table),
        );
        const counted = counter.seen().acknowledged;
        assert.match(
          await must('--output', 'wide', 'node', 'remove', '--yes', 'n3', '--lost', '--keep-keys'),
          /Kubernetes etcd +2 members, not including it/,
        );
        assert.equal(await voters(), 2);
        const identity = await addMachine(bench, cluster, {
          name: REPLACEMENT,
          like: 'n2',
          joinEndpoints: [`${one}:9090`, `${other}:9090`],
        });
        await eventually(
          'an operator approves the new machine',
          180,
          () => must('node', 'approve', identity, '--name', REPLACEMENT, '--roles', 'control-plane'),
          () => true,
        );
        await eventually('three voters', 300, voters, (count) => count === 3);
        await machines.allReady([...left, REPLACEMENT], 300);
        await allFine(120);
        const labelled = await labels.end();
        const seen = counter.seen();
        const pausesMs = [first.longestOutageMs, second.longestOutageMs].map(Math.round);
        step.diagnostic(
          `${seen.acknowledged} counts (${seen.refused} refused), ${labelled.acknowledged} labels (${labelled.refused} refused), API servers paused for ${pausesMs.join(' and ')} ms at most`,
        );
        assert.deepEqual([seen.lost, labelled.lost], [[], []]);
        assert.ok(seen.acknowledged > counted && labelled.acknowledged > 0);
        for (const pauseMs of pausesMs) assert.ok(pauseMs < LONGEST_PAUSE_MS, `${pauseMs} ms`);
        // New pods may have moved here from the lost machine; all earlier processes must still run.
        const now = new Set(await running());
        assert.deepEqual(
          before.filter((line) => !now.has(line)),
          [],
        );
      },
    );
});
