import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile, readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { installCli, place, StoryCluster, reprovision, withoutEndpoints } from '../harness/story-cluster.ts';
import { limitCloudInit } from '../harness/limit-cloud-init.ts';
import { installDebian } from '../harness/install-debian.ts';
import { eventually } from '../harness/node-shell.ts';

const EXAMPLES = join(import.meta.dirname, '../../../docs/examples');
const DIST = join(import.meta.dirname, '../../../dist');
const PROVISIONING = '/etc/cluster/provisioning.json';

interface UserData {
  readonly write_files: readonly { readonly path: string; readonly content: string }[];
  readonly runcmd: readonly unknown[];
}

/**
 * Copies the agent's package to a machine, as an operator's image would contain it. Returns its path there.
 */
async function placeAgent(bench: Harness, cluster: StoryCluster, machine: string): Promise<string> {
  const name = (await readdir(DIST)).find((file) => /^cluster-agent_.*\.deb$/.test(file)) ?? '';
  const { paths } = await (await bench.cluster(cluster.name)).node(machine);
  await copyFile(join(DIST, name), join(paths.data, 'cluster/agent.deb'));
  return '/var/lib/cluster/agent.deb';
}

/** A metadata service like that of a cloud: it responds to every client of its network. */
async function metadataService(
  host: string,
  answer: () => { readonly status: number; readonly body: string },
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((_, response) => {
    const { status, body } = answer();
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });
  server.listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}/cluster`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

await test('the documented automation examples work', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'automation');
  await cluster.machines({ controlPlanes: 1, workers: 3 });
  const first = `${await cluster.address('n1')}:9090`;
  for (const machine of ['n2', 'n3', 'n4']) await withoutEndpoints(cluster, machine);
  for (const machine of ['n2', 'n3']) await installCli(bench, cluster.name, machine);
  await Promise.all([
    installDebian(bench, cluster, 'n2', ['cloud-init']),
    installDebian(bench, cluster, 'n3', ['ansible-core']),
  ]);
  const made = cluster.up();
  made.catch(() => undefined); // the tests below await it and report its error

  /**
   * The provisioning fields that describe the machine and not its cluster. Local machines need them, because they
   * have an external component store and no TPM device in /dev.
   */
  const ownOf = async (machine: string): Promise<object> => {
    const own = JSON.parse(await cluster.run(machine, 'cat', PROVISIONING)) as Record<string, unknown>;
    const { ownerKeys: _keys, joinEndpoints: _endpoints, cluster: _cluster, ...rest } = own;
    return rest;
  };

  await story.test(
    'cloud-init: user data from `cluster node cloud-init` makes the machine a node, and the commands of the example wait until it runs',
    async () => {
      const example = parse(await readFile(join(EXAMPLES, 'cloud-init.yaml'), 'utf8')) as UserData;
      const flags = ['--endpoint', first, '--package', `file://${await placeAgent(bench, cluster, 'n2')}`];
      const workspace = await cluster.workspace();
      const printed = await eventually(
        '`cluster node cloud-init` succeeds once the cluster exists',
        180,
        () => bench.cli('--workspace', workspace, 'node', 'cloud-init', ...flags),
        ({ code }) => code === 0,
      );
      assert.match(printed.stdout, /^#cloud-config\n/);
      const userData = parse(printed.stdout) as UserData;
      const [file, ...others] = userData.write_files;
      assert.deepEqual([file?.path, others], [PROVISIONING, []]);
      assert.deepEqual(
        example.write_files.map(({ path }) => path),
        [PROVISIONING],
      );
      const provisioning = JSON.parse(file?.content ?? '') as { readonly cluster?: { readonly id: string } };
      assert.match(provisioning.cluster?.id ?? '', /^[0-9a-f]{32}$/);
      const content = JSON.stringify({ ...provisioning, ...(await ownOf('n2')) });
      const whole = {
        ...example,
        write_files: [{ ...file, content }],
        runcmd: [...userData.runcmd, ...example.runcmd],
      };
      const seed = '/var/lib/cloud/seed/nocloud';
      await limitCloudInit(cluster, 'n2');
      await place(cluster, 'n2', `${seed}/user-data`, `#cloud-config\n${stringify(whole)}`);
      await place(cluster, 'n2', `${seed}/meta-data`, 'instance-id: story\n');
      await cluster.run('n2', 'systemctl', 'stop', 'bootstrapper');
      await cluster.sh(
        'n2',
        'cloud-init init --local && cloud-init init && cloud-init modules --mode=config',
      );
      const last = await cluster.try('n2', 'cloud-init', 'modules', '--mode=final');
      assert.equal(last.code, 0, last.stdout + last.stderr);
      assert.match(last.stdout + last.stderr, /join-stage-running/);
      assert.equal(await cluster.run('n2', 'stat', '-c', '%a', PROVISIONING), '600');
    },
  );

  await story.test('Ansible: the playbook joins the machine, and a second run changes nothing', async () => {
    const example = parse(await readFile(join(EXAMPLES, 'ansible.yml'), 'utf8')) as {
      tasks: { readonly name: string; readonly 'ansible.builtin.copy'?: { content?: string } }[];
    }[];
    const [play] = example;
    assert.ok(play !== undefined);
    // The machines of this story have both packages.
    play.tasks = play.tasks.filter(({ name }) => !/^(Copy|Install) the packages$/.test(name));
    const copy = play.tasks.find(({ name }) => name === 'Provision the machine')?.['ansible.builtin.copy'];
    assert.ok(copy !== undefined);
    const { ownerKeys } = JSON.parse(await cluster.run('n3', 'cat', PROVISIONING)) as {
      readonly ownerKeys: readonly string[];
    };
    copy.content = `${JSON.stringify({ ownerKeys, ...(await ownOf('n3')) })}\n`;
    await place(cluster, 'n3', '/root/play.yml', stringify(example));
    await place(cluster, 'n3', '/root/hosts', '[workers]\nlocalhost ansible_connection=local\n');
    const variables = JSON.stringify({ endpoints: [first, first] });
    const runPlay = () =>
      cluster.try(
        'n3',
        'env',
        'HOME=/root',
        'LC_ALL=C.UTF-8',
        'ansible-playbook',
        '-i',
        '/root/hosts',
        '-e',
        variables,
        '/root/play.yml',
      );
    await cluster.sh('n3', 'echo 0 > /proc/sys/net/ipv4/ip_forward');
    const played = await runPlay();
    assert.equal(played.code, 0, played.stdout + played.stderr);
    for (const task of ['Check the machine', 'Join'])
      assert.match(played.stdout, new RegExp(`TASK \\[${task}\\] \\*+\\nchanged: \\[localhost\\]`));
    const again = await runPlay();
    assert.equal(again.code, 0, again.stdout + again.stderr);
    assert.match(again.stdout, /localhost\s+: ok=\d+\s+changed=0\s/);
  });

  await story.test(
    'metadata service: a machine polls the service until it gets the data of its cluster, and then joins',
    async () => {
      const answers = [503, 200];
      await using service = await metadataService(await cluster.workstation(), () => ({
        status: answers.shift() ?? 200,
        body: answers.length === 0 ? JSON.stringify({ joinEndpoints: [first] }) : '',
      }));
      await reprovision(cluster, 'n4', (found) => ({
        ...found,
        metadata: { kind: 'http', url: service.url },
      }));
      await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 180);
      assert.match(await cluster.log('n4'), /endpoint source not usable.*HTTP 503/);
    },
  );

  await story.test('all machines are Ready, and each joined once', async () => {
    await made;
    await cluster.allReady(['n1', 'n2', 'n3', 'n4'], 60);
    assert.equal(await cluster.members(), 4);
  });
});
