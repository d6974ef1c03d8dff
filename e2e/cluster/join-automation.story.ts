import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createBench, type Bench } from '../machines/bench.ts';
import { installCli, JoiningCluster, withoutEndpoints } from './joining.ts';

const EXAMPLES = join(import.meta.dirname, '../../docs/examples');
const PROVISIONING = '/etc/cluster/provisioning.json';
/** Only what the example needs: no data source of a cloud, no network of its own, nothing of the machine changed. */
const CLOUD_CONFIG = {
  datasource_list: ['NoCloud'],
  network: { config: 'disabled' },
  preserve_hostname: true,
  apt: { preserve_sources_list: true },
  cloud_init_modules: ['write-files'],
  cloud_config_modules: ['runcmd'],
  cloud_final_modules: ['package-update-upgrade-install', 'scripts-user'],
};

/** Debian packages that a machine lacks, fetched here for what it has: machines have no way out. */
async function installDebian(
  bench: Bench,
  cluster: JoiningCluster,
  machine: string,
  packages: readonly string[],
) {
  const folder = await mkdtemp(join(bench.folder, 'packages-'));
  await mkdir(join(folder, 'partial'));
  const status = join(folder, 'status');
  await writeFile(status, await cluster.run(machine, 'cat', '/var/lib/dpkg/status'));
  const options = [
    `Dir::State::status=${status}`,
    `Dir::Cache::archives=${folder}/`,
    'APT::Sandbox::User=root',
  ];
  const { commands } = bench.machines;
  const { signal } = bench;
  const flags = [
    ...options.flatMap((each) => ['-o', each]),
    '--yes',
    '--no-install-recommends',
    '--download-only',
  ];
  await commands.run({ argv: ['apt-get', ...flags, 'install', ...packages], signal, timeoutMs: 300_000 });
  const tar = join(folder, 'packages.tar');
  const pack = `cd ${folder} && tar --create --file ${tar} *.deb`;
  await commands.run({ argv: ['sh', '-ec', pack], signal });
  const node = await (await bench.cluster(cluster.name)).node(machine);
  const install =
    'mkdir -p /root/packages && cd /root/packages && tar --extract && DEBIAN_FRONTEND=noninteractive apt-get --yes --no-install-recommends install ./*.deb && rm -r /root/packages';
  await node.exec(['sh', '-ec', install], { input: await readFile(tar), signal, timeoutMs: 300_000 });
}

/** A file on a machine. */
async function place(cluster: JoiningCluster, machine: string, path: string, text: string): Promise<void> {
  const base64 = Buffer.from(text).toString('base64');
  await cluster.sh(machine, `mkdir -p "$(dirname ${path})" && echo ${base64} | base64 -d > ${path}`);
}

await test('the examples for automation, run as they are written', async (story) => {
  await using bench = await createBench();
  const cluster = new JoiningCluster(bench, 'automation');
  await cluster.machines({ controlPlanes: 1, workers: 2 });
  const first = `${await cluster.address('n1')}:9090`;
  for (const machine of ['n2', 'n3']) {
    await installCli(bench, cluster.name, machine);
    await withoutEndpoints(cluster, machine);
  }
  await Promise.all([
    installDebian(bench, cluster, 'n2', ['cloud-init']),
    installDebian(bench, cluster, 'n3', ['ansible-core']),
  ]);
  const made = cluster.up();
  made.catch(() => undefined); // told below, by who waits for it

  // The examples are of a machine with a TPM of its own and an owner of theirs; these here have others.
  const provisioningOf = async (machine: string, more: object): Promise<string> => {
    const own = JSON.parse(await cluster.run(machine, 'cat', PROVISIONING)) as object;
    return JSON.stringify({ ...own, ...more });
  };

  await story.test(
    'cloud-init: user-data writes the provisioning and waits until the node runs',
    async () => {
      const example = parse(await readFile(join(EXAMPLES, 'cloud-init.yaml'), 'utf8')) as {
        write_files: { path: string; content: string }[];
      };
      const [file] = example.write_files;
      assert.ok(file !== undefined);
      assert.equal(file.path, PROVISIONING);
      file.content = await provisioningOf('n2', { joinEndpoints: [first] });
      const seed = '/var/lib/cloud/seed/nocloud';
      await place(cluster, 'n2', '/etc/cloud/cloud.cfg.d/99-story.cfg', stringify(CLOUD_CONFIG));
      await place(cluster, 'n2', `${seed}/user-data`, `#cloud-config\n${stringify(example)}`);
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

  await story.test('Ansible: the play joins the machine, and played again it changes nothing', async () => {
    const example = parse(await readFile(join(EXAMPLES, 'ansible.yml'), 'utf8')) as {
      tasks: Record<string, { content?: string }>[];
    }[];
    const copy = example[0]?.tasks[0]?.['ansible.builtin.copy'];
    assert.ok(copy !== undefined);
    copy.content = `${await provisioningOf('n3', {})}\n`;
    await place(cluster, 'n3', '/root/play.yml', stringify(example));
    await place(cluster, 'n3', '/root/hosts', '[workers]\nlocalhost ansible_connection=local\n');
    const variables = JSON.stringify({ endpoints: [first, first] });
    const play = () =>
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
    const once = await play();
    assert.equal(once.code, 0, once.stdout + once.stderr);
    const again = await play();
    assert.equal(again.code, 0, again.stdout + again.stderr);
    assert.match(again.stdout, /localhost\s+: ok=\d+\s+changed=0\s/);
  });

  await story.test('all of them are Ready, each joined once', async () => {
    await made;
    await cluster.allReady(['n1', 'n2', 'n3'], 60);
    assert.equal(await cluster.members(), 3);
  });
});
