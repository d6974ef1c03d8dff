import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { keepMachinesOn } from './keep-machines-on.ts';
import { MACHINES, plainMachines } from './plain-machines.ts';
import { runPage } from './run-page.ts';
import { Workstation } from './workstation.ts';

/** Runs the first page of the tutorial at a workstation whose `ssh` and `scp` lead to four plain Debian machines. */
await test('the tutorial makes a cluster of three control planes and a worker', async (story) => {
  await using bench = await createHarness();
  const plain = await plainMachines(bench, 'tutorial');
  const { cluster } = plain;
  const workstation = await Workstation.create(bench, { ...plain, kubectl: false });
  await using _ = keepMachinesOn(cluster, MACHINES);
  await runPage(
    story,
    'three-machines.md',
    { ...plain, workstation },
    {
      // Calls ./kubectl, the copy from the node: a kubectl of this host in the PATH could hide that the copy does not
      // run here.
      '8. Use Kubernetes (1)': () => workstation.run('./kubectl version --client'),
      '8. Use Kubernetes (2)': async () => {
        for (const machine of MACHINES)
          assert.match(workstation.output, new RegExp(`^${machine} +Ready +`, 'm'));
        assert.deepEqual(await cluster.etcdMembers(), { voters: 3, learners: 0 });
      },
      '8. Use Kubernetes (3)': () => assert.match(workstation.output, /tolerates 1 failure/),
      '9. Remove a machine': () => assert.match(workstation.output, /^tpm-ek:\S+ +n4 /m),
      'Uninstall (2)': async () => {
        for (const machine of MACHINES) {
          const secrets =
            'ls -d /etc/kubernetes /var/lib/etcd /var/lib/cluster/{ca,consensus,credentials,etcd-*,kubernetes,membership}';
          const left = await cluster.run(machine, 'bash', '-c', `${secrets} 2> /dev/null || true`);
          assert.equal(left, '', `${machine} has data of the cluster`);
        }
      },
    },
  );
});
