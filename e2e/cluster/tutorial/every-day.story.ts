import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { requireApproval, StoryCluster } from '../harness/story-cluster.ts';
import { keepMachinesOn } from './keep-machines-on.ts';
import { runPage, type Checks } from './run-page.ts';
import { Workstation } from './workstation.ts';

const MACHINES = ['n1', 'n2', 'n3', 'n4'];

/** The pages, and checks of some of their blocks. */
function pagesFor(cluster: StoryCluster, workstation: Workstation): Readonly<Record<string, Checks>> {
  const shows = (...texts: readonly RegExp[]) => {
    return (): void => {
      for (const text of texts) assert.match(workstation.output, text);
    };
  };
  const areReady = () => cluster.allReady(MACHINES, 60);
  const hasThreeVoters = async (): Promise<void> =>
    assert.deepEqual(await cluster.etcdMembers(), { voters: 3, learners: 0 });
  return {
    'certificates.md': {
      '1. See what expires (1)': shows(/kubelet-serving\.crt|kubelet/),
      '2. Renew your own': shows(...MACHINES.map((machine) => new RegExp(`^${machine} +Ready +`, 'm'))),
    },
    'charts-and-registries.md': {
      '1. Install a chart (2)': shows(/good morning/),
      '2. Change a chart': shows(/good evening/),
      '3. Use a mirror of a registry (2)': shows(/mirror\.example\.org/),
    },
    'nodes.md': {
      '2. Set labels and taints': shows(/^n4 .* ssd$/m),
      '4. Move a control plane to another machine (1)': shows(
        /^n3 .* worker/m,
        /^n4 .* control-plane,worker/m,
      ),
      '4. Move a control plane to another machine (2)': hasThreeVoters,
      '5. Reset a machine and use it again': areReady,
      '6. Remove a machine, and let it in again (1)': shows(/^tpm-ek:\S+ +n4 /m),
      '6. Remove a machine, and let it in again (2)': areReady,
    },
    'when-something-is-wrong.md': {
      '1. Ask the cluster': shows(/tolerates 1 failure/),
      '3. Before it gets worse (2)': shows(/GRADE +FOUND +THRESHOLD/),
    },
  };
}

/** Runs every command of the pages for every day, in their order, on one cluster of three control planes and a worker. */
await test('the tutorial pages for every day do what they say', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'everyday');
  await bench.must('mini', 'up', '--name', 'everyday', '--control-planes', '3', '--workers', '1');
  const workstation = await Workstation.create(bench, {
    cluster,
    machines: MACHINES,
    own: {},
    kubectl: true,
  });
  await symlink(await cluster.workspace(), workstation.path('prod'));
  await workstation.run('apt-get install -y ./dist/cluster_*_amd64.deb\ncd prod');
  // As the first page leaves it: each machine is approved. A local cluster lists its machines in the inventory.
  await cluster.edit(requireApproval);
  await workstation.run('cluster config apply --yes');
  const allPods = 'kubectl wait --for=condition=Ready pod --all --all-namespaces --timeout=5m';
  await workstation.run(`KUBECONFIG=$PWD/kubeconfig ${allPods}`);
  await using _ = keepMachinesOn(cluster, MACHINES);

  for (const [page, checks] of Object.entries(pagesFor(cluster, workstation)))
    await runPage(story, page, { cluster, machines: MACHINES, workstation }, checks);
});
