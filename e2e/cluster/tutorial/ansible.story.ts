import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { installDebian } from '../harness/install-debian.ts';
import type { StoryCluster } from '../harness/story-cluster.ts';
import { keepMachinesOn } from './keep-machines-on.ts';
import { MACHINES, plainMachines } from './plain-machines.ts';
import { runPage } from './run-page.ts';
import { Workstation } from './workstation.ts';

const PROVISIONING = '/etc/cluster/provisioning.json';

/** Starts an ssh server that lets the key in. Returns the line of `known_hosts`. */
async function serveSsh(
  bench: Harness,
  cluster: StoryCluster,
  machine: string,
  key: string,
): Promise<string> {
  await installDebian(bench, cluster, machine, ['openssh-server', 'python3', 'python3-apt']);
  await cluster.sh(
    machine,
    `install -d -m 700 /root/.ssh && echo '${key}' > /root/.ssh/authorized_keys && systemctl restart ssh`,
  );
  const hostKey = await cluster.run(machine, 'cat', '/etc/ssh/ssh_host_ed25519_key.pub');
  return `${await cluster.address(machine)} ${hostKey}\n`;
}

/** Runs the page about Ansible: real ansible-core, over ssh, on four plain Debian machines. */
await test('Ansible makes a cluster of three control planes and a worker', async (story) => {
  await using bench = await createHarness();
  const plain = await plainMachines(bench, 'ansible');
  const { cluster, own } = plain;
  const [key, knownHosts] = [`${bench.directory}/ssh-key`, `${bench.directory}/known-hosts`];
  const environment = {
    LC_ALL: 'C.UTF-8',
    ANSIBLE_PRIVATE_KEY_FILE: key,
    ANSIBLE_SSH_ARGS: `-o UserKnownHostsFile=${knownHosts} -o ControlMaster=no`,
    // The other programs of the page see an \`ssh\` of this story.
    ANSIBLE_SSH_EXECUTABLE: '/usr/bin/ssh',
  };
  const workstation = await Workstation.create(bench, { ...plain, kubectl: false, environment });
  await workstation.run(`ssh-keygen -q -t ed25519 -N '' -f ${key}`);
  const publicKey = (await readFile(`${key}.pub`, 'utf8')).trim();
  let hosts = '';
  for (const machine of MACHINES) hosts += await serveSsh(bench, cluster, machine, publicKey);
  await writeFile(knownHosts, hosts);
  await using _ = keepMachinesOn(cluster, MACHINES);

  await runPage(
    story,
    'ansible.md',
    { ...plain, workstation },
    {
      '2. Create the workspace': async () => {
        await mkdir(workstation.path('prod/host_vars'));
        for (const machine of MACHINES)
          await writeFile(
            workstation.path(`prod/host_vars/${machine}.yml`),
            JSON.stringify({ machine: own[machine] }),
          );
      },
      '6. Let the other machines ask to join': async () => {
        // The other play stops at what no repetition cures: the machine has swap, so it is never asked to join.
        const [swaps, kept] = ['/run/swaps', '/run/provisioning.kept'];
        const header = 'Filename\\tType\\tSize\\tUsed\\tPriority';
        await cluster.sh(
          'n4',
          `cp -p ${PROVISIONING} ${kept}; printf '${header}\\n/dev/sda2\\tpartition\\t1048572\\t0\\t-2\\n' > ${swaps}; mount --bind ${swaps} /proc/swaps`,
        );
        await writeFile(
          workstation.path('prod/unfit'),
          `[workers]\n${await cluster.address('n4')} ansible_user=root\n`,
        );
        await assert.rejects(
          workstation.run(
            `ansible-playbook ../docs/examples/ansible.yml -i unfit -e "{packages: [$(ls $PWD/../dist/cluster-agent_*_amd64.deb), $(ls $PWD/../dist/cluster_*_amd64.deb)]}"`,
          ),
          (error: Error) => {
            assert.match(error.message, /TASK \[Check the machine\][^]*preflight-swap[^]*\/dev\/sda2/);
            assert.doesNotMatch(error.message, /TASK \[(Run the agent|Join)\]/);
            return true;
          },
        );
        await cluster.sh('n4', `umount /proc/swaps; cp -p ${kept} ${PROVISIONING}`);
      },
      '7. Admit them': async () => {
        await cluster.allReady(MACHINES, 60);
        assert.deepEqual(await cluster.etcdMembers(), { voters: 3, learners: 0 });
      },
      '8. Run the playbook again': () => {
        for (const machine of ['n2', 'n3', 'n4'])
          assert.match(workstation.output, new RegExp(`^${machine} +: ok=\\d+ +changed=0 `, 'm'));
        assert.match(workstation.output, /tolerates 1 failure/);
      },
    },
  );
});
