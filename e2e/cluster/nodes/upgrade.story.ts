import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFile, copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { ApiAvailability } from '../harness/api-availability.ts';
import { dnsIsDistributed, eventually, NodeShell } from '../harness/node-shell.ts';

const NAME = 'upgrade';
const NEWER = '99.0.0';
const DIST = join(import.meta.dirname, '../../../dist');
/** Names of the processes that an upgrade of the agent must not restart. */
const WORKLOADS =
  'etcd kube-apiserver kube-controller-manager kube-scheduler kubelet containerd kube-proxy coredns flanneld web';

/** Builds a package of the agent with changed programs and a higher version, like a next release. */
async function newerPackage(bench: Harness): Promise<string> {
  const name = (await readdir(DIST)).find((file) => /^cluster-agent_.*\.deb$/.test(file));
  assert.ok(name !== undefined, 'the package of the agent is built');
  const tree = join(bench.directory, 'newer');
  execFileSync('dpkg-deb', ['--raw-extract', join(DIST, name), tree]);
  for (const program of ['bootstrapper', 'joinservice', 'signer', 'apilb'])
    await appendFile(join(tree, `usr/lib/cluster/${program}.mjs`), `\n// ${NEWER}\n`);
  const control = join(tree, 'DEBIAN/control');
  await writeFile(control, (await readFile(control, 'utf8')).replace(/^Version: .*$/m, `Version: ${NEWER}`));
  const target = join(bench.directory, 'newer.deb');
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zzstd', '-z1', '--build', tree, target]);
  return target;
}

/** Lines of "NAME PID START" for each process; the start time exposes a reused PID. */
const processes = (node: NodeShell): Promise<string> =>
  node.run(
    'sh',
    '-c',
    `for name in ${WORKLOADS}; do for pid in $(pidof $name); do echo $name $pid $(cut -d' ' -f22 /proc/$pid/stat); done; done | sort`,
  );
const mainPid = (node: NodeShell, unit: string): Promise<string> =>
  node.run('systemctl', 'show', '--property', 'MainPID', '--value', unit);

/** Upgrades the agent on one node, and returns the processes that it compared before and after. */
async function upgrade(story: TestContext, bench: Harness, name: string, newer: string): Promise<string> {
  const node = new NodeShell(bench, NAME, name);
  const machine = await (await bench.cluster(NAME)).node(name);
  await copyFile(newer, join(machine.paths.data, 'cluster/newer.deb'));
  const before = await processes(node);
  assert.match(before, /^kubelet /m);
  const agent = await mainPid(node, 'bootstrapper');
  story.diagnostic(await node.run('dpkg', '--install', '/var/lib/cluster/newer.deb'));
  await eventually(
    'the new agent is up',
    60,
    () => node.run('systemctl', 'show', '--property', 'MainPID,ActiveState', '--value', 'bootstrapper'),
    (text) => text.includes('active') && !text.split('\n').includes(agent) && !/^0$/m.test(text),
  );
  assert.match(await node.run('dpkg-query', '--show', 'cluster-agent'), new RegExp(NEWER));
  assert.equal(await processes(node), before);
  return before;
}

await test('upgrading the agent on every node affects no workload', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1', '--demo');
  const cluster = await bench.cluster(NAME);
  const first = new NodeShell(bench, NAME);
  const newer = await newerPackage(bench);
  await dnsIsDistributed((...args) => first.kubectl(...args));
  const { address } = await cluster.node('n1');
  await using api = new ApiAvailability(address);
  const services = ['cluster-joinservice', 'cluster-signer'];
  const before = await Promise.all(services.map((unit) => mainPid(first, unit)));

  const compared: string[] = [];
  for (const name of ['n1', 'n2'])
    await story.test(
      `${name}: etcd, Kubernetes and pods are the same processes as before the upgrade`,
      async (step) => {
        compared.push(await upgrade(step, bench, name, newer));
      },
    );

  await story.test('the comparison included every kind of process', () => {
    const names = new Set(
      compared
        .join('\n')
        .split('\n')
        .map((line) => line.split(' ')[0]),
    );
    assert.deepEqual(
      WORKLOADS.split(' ').filter((name) => !names.has(name)),
      [],
    );
  });

  await story.test('the join service and the signer run the new programs', async () => {
    const after = await Promise.all(services.map((unit) => mainPid(first, unit)));
    services.forEach((unit, index) => assert.notEqual(after[index], before[index], unit));
  });

  await story.test(
    'all nodes are healthy and Ready, and their curators respond to the operator',
    async () => {
      await eventually(
        'both nodes are healthy',
        60,
        () => bench.must('--workspace', cluster.paths.workspace, 'node', 'ls'),
        (table) => (table.match(/\bHealthy\b/g) ?? []).length === 2,
      );
      const ready = await first.kubectl('get', 'nodes', '--no-headers');
      assert.equal(ready.split('\n').filter((line) => / Ready /.test(line)).length, 2, ready);
      await bench.must('--workspace', cluster.paths.workspace, 'verify', 'n2');
    },
  );

  await story.test('the API never paused for longer than a second', () => {
    const pauseMs = api.longestOutageMs;
    story.diagnostic(`longest pause ${Math.round(pauseMs)} ms`);
    assert.ok(pauseMs < 1000, `${pauseMs} ms`);
  });
});
