import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { shellBlocks } from './shell-blocks.ts';
import { Workstation } from './workstation.ts';

const PAGE = join(import.meta.dirname, '../../../docs/tutorial/three-machines.md');
const DIST = join(import.meta.dirname, '../../../dist');
const MACHINES = ['n1', 'n2', 'n3', 'n4'];

/** Checks that run after a step, in addition to the check of the exit codes. */
const CHECKS: Readonly<
  Record<string, (cluster: StoryCluster, workstation: Workstation) => Promise<void> | void>
> = {
  // Calls ./kubectl, the copy from the node: a kubectl of this host in the PATH could hide that the copy does not run
  // here.
  '8. Use Kubernetes (1)': (_, workstation) => workstation.run('./kubectl version --client'),
  '8. Use Kubernetes (2)': async (cluster, { output }) => {
    for (const machine of MACHINES) assert.match(output, new RegExp(`^${machine} +Ready +`, 'm'));
    const voters = JSON.parse(await cluster.etcdctl('n1', 'member', 'list', '--write-out', 'json')) as {
      members: readonly { readonly isLearner?: boolean }[];
    };
    assert.deepEqual([voters.members.length, voters.members.some(({ isLearner }) => isLearner)], [3, false]);
  },
  '8. Use Kubernetes (3)': (_, { output }) => assert.match(output, /tolerates 1 failure/),
  'Uninstall (2)': async (cluster) => {
    for (const machine of MACHINES) {
      const secrets =
        'ls -d /etc/kubernetes /var/lib/etcd /var/lib/cluster/{ca,consensus,credentials,etcd-*,kubernetes,membership}';
      const left = await cluster.run(machine, 'bash', '-c', `${secrets} 2> /dev/null || true`);
      assert.equal(left, '', `${machine} has data of the cluster`);
    }
  },
  '9. Remove a machine': (_, { output }) => assert.match(output, /^tpm-ek:\S+ +n4 /m),
};

/**
 * Runs every command of the tutorial in its order, at a workstation whose `ssh` and `scp` lead to four plain Debian
 * machines. The packages on which the agent's package depends are already installed, because the machines reach no
 * package server. The machines do not have the agent's package, a provisioning file or components.
 */
await test('the tutorial makes a cluster of three control planes and a worker', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'tutorial');
  const nodesOnly = ['--nodes-only', '--empty-store'];
  await bench.must(
    'mini',
    'up',
    '--name',
    'tutorial',
    ...nodesOnly,
    '--control-planes',
    '3',
    '--workers',
    '1',
  );
  const addresses = new Map<string, string>();
  const own: Record<string, object> = {};
  for (const [index, machine] of MACHINES.entries()) {
    addresses.set(`10.0.0.2${index + 1}`, await cluster.address(machine));
    own[machine] = await machineSettings(cluster, machine);
    await cluster.sh(machine, 'dpkg --purge cluster-agent && rm -rf /etc/cluster /var/lib/cluster/*');
  }
  const workstation = await Workstation.create(bench, {
    cluster,
    machines: MACHINES,
    own,
    dist: DIST,
    kubectl: false,
  });
  const page = await readFile(PAGE, 'utf8');

  for (const { title, script } of shellBlocks(page)) {
    const check = CHECKS[title];
    let run = script;
    for (const [written, real] of addresses) run = run.replaceAll(written, real);
    // A step needs those before it, so the first failure ends the story.
    await workstation.run(run).catch((error: unknown) => assert.fail(`${title}: ${String(error)}`));
    await story.test(title, () => check?.(cluster, workstation));
  }

  await story.test('each check belongs to a step of the page', () => {
    const titles = new Set(shellBlocks(page).map(({ title }) => title));
    assert.deepEqual(
      Object.keys(CHECKS).filter((title) => !titles.has(title)),
      [],
    );
  });
});

/** The settings that only a local machine needs: its software TPM, and the features that its host does not support. */
async function machineSettings(cluster: StoryCluster, machine: string): Promise<object> {
  const all = JSON.parse(await cluster.run(machine, 'cat', '/etc/cluster/provisioning.json')) as Record<
    string,
    unknown
  >;
  const names = ['tpm', 'containerRuntime', 'kubelet'];
  return Object.fromEntries(names.filter((name) => name in all).map((name) => [name, all[name]]));
}
