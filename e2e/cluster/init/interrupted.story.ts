import assert from 'node:assert/strict';
import { cp, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually, machineWithoutCluster } from '../harness/node-shell.ts';
import { waitForExit, waitForOutput } from '../harness/program-output.ts';

const CTRL_C = '\u0003';
/**
 * Creates cgroups as a kubelet does for the first pod of a node. In cgroup v1, systemd would remove the
 * cgroup and its parents if the kubelet's unit had no `Wants=` for these slices.
 */
const MAKE_FIRST_POD = `
  [ -d /sys/fs/cgroup/devices ] || exit 0
  systemctl start kubepods-besteffort-kept.slice kubepods-burstable-kept.slice
  for kind in besteffort burstable; do
    around=/sys/fs/cgroup/devices/kubepods.slice/kubepods-$kind.slice
    mkdir $around/kubepods-$kind-podfirst.slice
    systemctl start kubepods-$kind-podother.slice
    systemctl stop kubepods-$kind-podother.slice
    rmdir $around/kubepods-$kind-podfirst.slice
  done
  systemctl stop kubepods.slice
`;

await test('an interrupted init always ends in one cluster', async (story) => {
  await using bench = await createHarness();
  const { address, fingerprint, workspace, node } = await machineWithoutCluster(bench, 'torn');
  const init = ['--workspace', workspace, 'init', '--node', address, '--fingerprint', fingerprint] as const;

  await story.test(
    'the cgroup of a first pod stays when systemd starts and stops another slice',
    async () => {
      await node.run('sh', '-ec', MAKE_FIRST_POD);
    },
  );

  await story.test(
    'the node refuses a client with an untrusted owner key before the node lock is taken, and sends it no log line',
    async () => {
      const otherWorkspace = join(bench.directory, 'other-workspace');
      await mkdir(otherWorkspace);
      await bench.must('--workspace', otherWorkspace, 'config', 'generate', '--local');
      const refused = await bench.cli(
        '--workspace',
        otherWorkspace,
        'init',
        '--node',
        address,
        '--fingerprint',
        fingerprint,
      );
      assert.equal(refused.code, 4, refused.stderr);
      assert.match(refused.stderr, /cluster-owner-refused/);
      assert.doesNotMatch(refused.stderr, /"level"|root\.initserver/);
      assert.equal(await node.exitCode('test', '-e', '/var/lib/cluster/enrolment/lock.json'), 1);
    },
  );

  await story.test('init refuses a machine whose fingerprint differs from --fingerprint', async () => {
    const other = `sha256:${'0'.repeat(64)}`;
    const refused = await bench.cli(
      '--workspace',
      workspace,
      'init',
      '--node',
      address,
      '--fingerprint',
      other,
    );
    assert.equal(refused.code, 4, refused.stderr);
    assert.match(refused.stderr, new RegExp(fingerprint));
  });

  await story.test(
    'Ctrl-C in a terminal leaves the job running on the node, and the CLI prints how to attach again',
    async () => {
      const cli = bench.startCliAtTerminal(...init);
      await waitForOutput(cli, /Installing components/);
      const end = waitForExit(cli);
      cli.stdin?.write(CTRL_C);
      const { code, stdout } = await end;
      assert.equal(code, 130, stdout);
      assert.match(stdout, /The init continues on the machine\. To attach again: cluster init/);
      // The node continues without an attached CLI.
      await eventually(
        'the job comes to the Kubernetes phase by itself',
        90,
        () => node.run('journalctl', '-u', 'bootstrapper', '--no-pager', '-o', 'cat'),
        (log) => /"phase started","phase":"control-plane"/.test(log),
      );
    },
  );

  let clusterId = '';
  await story.test(
    'kill -9 of the CLI in the middle of the Kubernetes phase leaves the job running',
    async () => {
      const cli = bench.startCli(...init);
      await waitForOutput(cli, /Starting the Kubernetes control plane/);
      cli.kill('SIGKILL');
      const lock = JSON.parse(await node.run('cat', '/var/lib/cluster/enrolment/lock.json')) as {
        clusterId: string;
      };
      clusterId = lock.clusterId;
    },
  );

  await story.test(
    "an init of another cluster with the same owner key is refused and gets the ID of the machine's cluster",
    async () => {
      const second = join(bench.directory, 'second');
      await mkdir(second);
      await cp(join(workspace, 'owner-key.pem'), join(second, 'owner-key.pem'));
      await bench.must('--workspace', second, 'config', 'generate', '--local');
      const refused = await bench.cli(
        '--workspace',
        second,
        'init',
        '--node',
        address,
        '--fingerprint',
        fingerprint,
      );
      assert.equal(refused.code, 5, refused.stderr);
      assert.match(refused.stderr, new RegExp(clusterId));
    },
  );

  await story.test('SIGINT ends a CLI that waits for an agent which was killed', async () => {
    await node.run('systemctl', 'kill', '--signal=KILL', '--kill-whom=main', 'bootstrapper');
    const cli = bench.startCli(...init, '--skip-charts');
    await waitForOutput(cli, /Connecting to|Waiting for the Kubernetes API/);
    const end = waitForExit(cli);
    cli.kill('SIGINT');
    const { code, stderr } = await end;
    assert.equal(code, 130, stderr);
    assert.match(stderr, /cluster init|continues|stopping/);
  });

  await story.test('the same command resumes the init and completes the same cluster', async () => {
    const done = await bench.cli(...init);
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, new RegExp(clusterId));
    await eventually(
      'the node is Ready',
      60,
      () => node.kubectl('get', 'nodes', '--no-headers'),
      (line) => /^n1 +Ready /.test(line),
    );
    const charts = await node.run('sh', '-c', 'kubectl get secrets -A -l owner=helm -o name | wc -l');
    assert.equal(charts, '1', 'the network chart is installed once');
  });

  await story.test('the same command again changes nothing', async () => {
    assert.match(await bench.must(...init), /nothing was changed/);
    const state = JSON.parse(await readFile(join(workspace, 'state.json'), 'utf8')) as object;
    assert.match(JSON.stringify(state), new RegExp(clusterId));
  });
});
