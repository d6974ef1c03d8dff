import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { JOINING_PHASES } from '../init/kill-matrix.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';

/**
 * Number of rounds. The short suite runs one; the long suite repeats it, because races show only sometimes.
 */
const ROUNDS = Number(env['MANY_NODES_ROUNDS'] ?? '1');
const NAME = 'many';
const MACHINES = ['n1', 'n2', 'n3', 'n4', 'n5'];
const CONTROL_PLANES = MACHINES.slice(0, 3);

interface NodeJson {
  readonly name: string;
  readonly roles: readonly string[];
  readonly state: string;
  readonly health: string;
}

/** The data of a command's result line with `--output json`. */
async function answer<T>(bench: Harness, ...args: readonly string[]): Promise<T> {
  const lines = (await bench.must(...args, '--output', 'json')).trim().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '{}') as { readonly type: string; readonly data: T };
  assert.equal(last.type, 'result');
  return last.data;
}

for (let round = 1; round <= ROUNDS; round++)
  await test(`three control planes and two workers are switched on in the same second and become a cluster (${round} of ${ROUNDS})`, async (story) => {
    await using bench = await createHarness();
    await bench.must(
      'mini',
      'up',
      '--name',
      NAME,
      '--control-planes',
      '3',
      '--workers',
      '2',
      '--empty-store',
    );
    const cluster = await bench.cluster(NAME);
    const globalFlags = ['--workspace', cluster.paths.workspace];
    const first = new NodeShell(bench, NAME);

    await story.test('all machines are members, healthy and Ready', async () => {
      const { nodes } = await answer<{ nodes: NodeJson[] }>(bench, 'node', 'ls', ...globalFlags);
      assert.deepEqual(nodes.map(({ name }) => name).toSorted(), MACHINES);
      for (const { state, health } of nodes) assert.deepEqual([state, health], ['up', 'healthy']);
      const ready = await first.kubectl(
        'get',
        'nodes',
        '-o',
        'jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}',
      );
      assert.deepEqual(
        ready.trim().split(' ').toSorted(),
        MACHINES.map((name) => `${name}=True`),
      );
    });

    await story.test('etcd has three started voting members and no learner', async () => {
      const { stdout } = await first.etcdctl('root', 'member', 'list', '--write-out', 'json');
      const { members } = JSON.parse(stdout) as {
        members: readonly { readonly name?: string; readonly isLearner?: boolean }[];
      };
      assert.equal(members.length, 3);
      assert.deepEqual(
        members.filter(({ isLearner, name }) => isLearner === true || (name ?? '') === ''),
        [],
      );
    });

    await story.test('each machine joined at its first attempt, and none was refused', async () => {
      const { joins } = await answer<{ joins: { state: string; name: string }[] }>(
        bench,
        'node',
        'ls',
        '--joins',
        ...globalFlags,
      );
      assert.deepEqual(
        joins.map(({ name, state }) => `${name} ${state}`).toSorted(),
        MACHINES.slice(1).map((name) => `${name} joined`),
      );
      const { entries } = await answer<{ entries: { detail: { verdict?: string } }[] }>(
        bench,
        'audit',
        'ls',
        ...globalFlags,
      );
      const verdicts = entries.map(({ detail }) => detail.verdict);
      assert.equal(verdicts.filter((verdict) => verdict === 'joined').length, 4);
      assert.equal(verdicts.includes('refused'), false);
      await bench.must('audit', 'verify', ...globalFlags);
    });

    await story.test('no pod was delayed by a missing cgroup', async () => {
      const machines = new StoryCluster(bench, NAME);
      const log = 'journalctl --no-pager --output cat --unit kubelet';
      for (const name of MACHINES)
        assert.doesNotMatch(await machines.sh(name, log), /failed to ensure that the pod/, name);
    });

    await story.test(
      'cluster verify accepts fresh evidence of each machine, and no machine reaches the internet',
      async () => {
        for (const name of MACHINES.slice(1)) await bench.must('verify', name, ...globalFlags);
        await new StoryCluster(bench, NAME).expectNoInternet(MACHINES);
      },
    );

    await story.test(
      'first and later control planes log the same phases, also after a restart of the agent',
      async () => {
        const machines = new StoryCluster(bench, NAME);
        /**
         * The phases of a join that the running agent process has started; phases that only an init has are
         * left out.
         */
        const phasesOf = async (machine: string): Promise<readonly string[]> => {
          const log = await machines.sh(
            machine,
            'journalctl --no-pager --output cat _SYSTEMD_INVOCATION_ID=$(systemctl show --property InvocationID --value bootstrapper)',
          );
          return JOINING_PHASES.filter((phase) => log.includes(`"phase started","phase":"${phase}"`));
        };
        for (const machine of CONTROL_PLANES)
          assert.deepEqual(await phasesOf(machine), JOINING_PHASES, machine);
        for (const machine of CONTROL_PLANES) {
          await machines.sh(machine, 'systemctl restart bootstrapper');
          await eventually(
            `the agent of ${machine} starts all phases again`,
            120,
            () => phasesOf(machine),
            (phases) => phases.length === JOINING_PHASES.length,
          );
        }
      },
    );

    await story.test('the same command again changes nothing', async () => {
      const out = await bench.must('mini', 'up', '--name', NAME);
      assert.match(out, /nothing was changed/);
      assert.match(out, /n1, n2, n3, n4, n5/);
    });
  });
