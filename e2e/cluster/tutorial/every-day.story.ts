import assert from 'node:assert/strict';
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { shellBlocks } from './shell-blocks.ts';
import { Workstation } from './workstation.ts';

const DOCS = join(import.meta.dirname, '../../../docs/tutorial');
const DIST = join(import.meta.dirname, '../../../dist');
const MACHINES = ['n1', 'n2', 'n3', 'n4'];

type Check = (cluster: StoryCluster, workstation: Workstation) => Promise<void> | void;

/** The pages. After some blocks a check runs, in addition to the check of the exit codes. */
const PAGES: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  'certificates.md': {
    '1. See what expires (1)': (_, { output }) => assert.match(output, /kubelet-serving\.crt|kubelet/),
    '2. Renew your own': (_, { output }) => {
      for (const machine of MACHINES) assert.match(output, new RegExp(`^${machine} +Ready +`, 'm'));
    },
  },
  'charts-and-registries.md': {
    '1. Install a chart (2)': (_, { output }) => assert.match(output, /good morning/),
    '2. Change a chart': (_, { output }) => assert.match(output, /good evening/),
    '3. Use a mirror of a registry (2)': (_, { output }) => assert.match(output, /mirror\.example\.org/),
  },
  'when-something-is-wrong.md': {
    '1. Ask the cluster': (_, { output }) => assert.match(output, /tolerates 1 failure/),
    '3. Before it gets worse (2)': (_, { output }) => assert.match(output, /doctor/),
  },
};

/** Runs every command of the pages for every day, in their order, on one cluster of three control planes and a worker. */
await test('the tutorial pages for every day do what they say', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'everyday');
  await bench.must('mini', 'up', '--name', 'everyday', '--control-planes', '3', '--workers', '1');
  const addresses = new Map<string, string>();
  for (const [index, machine] of MACHINES.entries())
    addresses.set(`10.0.0.2${index + 1}`, await cluster.address(machine));
  const workstation = await Workstation.create(bench, {
    cluster,
    machines: MACHINES,
    own: {},
    dist: DIST,
    kubectl: true,
  });
  await symlink(await cluster.workspace(), join(bench.directory, 'workstation/prod'));
  await workstation.run('apt-get install -y ./dist/cluster_*_amd64.deb\ncd prod');
  const allPods = 'kubectl wait --for=condition=Ready pod --all --all-namespaces --timeout=5m';
  await workstation.run(`KUBECONFIG=$PWD/kubeconfig ${allPods}`);

  for (const [page, checks] of Object.entries(PAGES)) {
    const blocks = shellBlocks(await readFile(join(DOCS, page), 'utf8'));
    for (const { title, script } of blocks) {
      let run = script;
      for (const [written, real] of addresses) run = run.replaceAll(written, real);
      // A step needs those before it, so the first failure ends the story.
      await workstation
        .run(run)
        .catch((error: unknown) => assert.fail(`${page}, ${title}: ${String(error)}`));
      await story.test(`${page}: ${title}`, () => checks[title]?.(cluster, workstation));
    }
    await story.test(`each check belongs to a step of ${page}`, () => {
      const titles = new Set(blocks.map(({ title }) => title));
      assert.deepEqual(
        Object.keys(checks).filter((title) => !titles.has(title)),
        [],
      );
    });
  }
});
