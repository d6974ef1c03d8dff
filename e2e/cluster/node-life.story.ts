import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { createBench } from '../machines/bench.ts';
import { JoiningCluster } from './joining.ts';
import { eventually, NodeShell } from './node-shell.ts';

const NAME = 'life';
/** How often a node becomes a control plane and a worker again; 50 on demand. */
const TOGGLES = Number(env['TOGGLES'] ?? '3');
const CONTROL_PLANE_PORTS = [2379, 2380, 6443, 9090, 9091, 10257, 10259];
const PAPERS = ['crt', 'key'] as const;
const KUBELET = '/var/lib/cluster/kubernetes/kubelet-client';

await test('a node changes its role over and over, is reset, joins anew and is lost', async (story) => {
  await using bench = await createBench();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new JoiningCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
  const first = new NodeShell(bench, NAME);
  const second = new NodeShell(bench, NAME, 'n2');

  const voters = async (): Promise<number> => {
    const { stdout } = await first.etcdctl('root', 'member', 'list');
    return stdout.split('\n').filter((line) => /, started, .*, false$/.test(line)).length;
  };
  const members = async (): Promise<number> => {
    const { stdout } = await first.etcdctl('root', 'member', 'list');
    return stdout.trim().split('\n').length;
  };
  /** What a role leaves behind when it does not clean up: processes, listening ports, mounts of pods and of units. */
  const traces = async (): Promise<string> => {
    const processes = await second.run(
      'sh',
      '-c',
      'ps -eo comm= | grep -v -E "^(sh|ps|sort|grep|sleep)$" | sort | uniq -c',
    );
    const ports = await second.run(
      'sh',
      '-c',
      `ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -n | uniq`,
    );
    const mounts = await second.run('sh', '-c', 'wc -l < /proc/self/mountinfo');
    return JSON.stringify({ processes, ports, mounts });
  };
  const portsOpen = async (): Promise<readonly number[]> => {
    const said = await second.run('sh', '-c', `ss -Hltn | awk '{print $4}' | sed 's/.*://'`);
    const open = new Set(said.split('\n').map(Number));
    return CONTROL_PLANE_PORTS.filter((port) => open.has(port));
  };

  await story.test(
    `a worker becomes a control plane and a worker again, ${TOGGLES} times: nothing is left behind`,
    async (step) => {
      const before = await traces();
      const kubelet = await cluster.pidOf('n2', 'kubelet');
      for (let round = 1; round <= TOGGLES; round++) {
        const startMs = Date.now();
        await must(
          'node',
          'set-role',
          'n2',
          '--control-plane',
          '--worker',
          '--force',
          '--delete-emptydir-data',
        );
        await eventually('two voters', 180, voters, (count) => count === 2);
        await eventually(
          'its API server answers',
          180,
          () => second.run('sh', '-c', 'kubectl --server https://127.0.0.1:6443 get --raw /readyz || true'),
          (text) => text === 'ok',
        );
        const promotedMs = Date.now();
        await must('node', 'set-role', 'n2', '--worker', '--force', '--delete-emptydir-data');
        await eventually('one member', 120, members, (count) => count === 1);
        await eventually('its ports are closed', 60, portsOpen, (open) => open.length === 0);
        step.diagnostic(`round ${round}: up ${promotedMs - startMs} ms, down ${Date.now() - promotedMs} ms`);
      }
      assert.equal(await cluster.pidOf('n2', 'kubelet'), kubelet, 'the kubelet ran through all of it');
      await eventually('it looks as before', 120, traces, (now) => now === before);
      await cluster.allReady(['n1', 'n2'], 60);
    },
  );

  /** What somebody with a copy of the machine's disk has: asked of the API server as its kubelet. */
  const stealPapers = async (): Promise<void> => {
    for (const kind of PAPERS) {
      const pem = await second.run('sh', '-c', `cat ${KUBELET}.${kind}`);
      await first.run('sh', '-c', `umask 077; echo '${pem}' > /root/stolen.${kind}`);
    }
  };
  const askAsStolen = (): Promise<string> =>
    first.run(
      'sh',
      '-c',
      'KUBECONFIG=/dev/null kubectl --server https://127.0.0.1:6443 --insecure-skip-tls-verify --client-certificate /root/stolen.crt --client-key /root/stolen.key get node n2 -o name 2>&1 || true',
    );

  await story.test('reset makes it a fresh machine, and nobody takes its old papers', async () => {
    await stealPapers();
    assert.equal(await askAsStolen(), 'node/n2');
    const key = await cluster.nodeKey('n2');
    await must('node', 'reset', 'n2', '--force', '--delete-emptydir-data');
    await eventually(
      'Kubernetes has forgotten it',
      60,
      () => first.kubectl('get', 'nodes', '-o', 'name'),
      (text) => text.trim() === 'node/n1',
    );
    // Only a restart clears the register of its TPM that shows the lock, and a local machine that restarts is off.
    await eventually(
      'the machine has ended',
      120,
      () => cluster.try('n2', 'true'),
      ({ stderr }) => /it is off/.test(stderr),
    );
    await cluster.start('n2');
    await eventually(
      'a new key',
      180,
      () => cluster.nodeKey('n2'),
      (now) => now !== key,
    );
    await eventually('the old papers are refused', 15, askAsStolen, (said) => /Forbidden/.test(said));
  });

  await story.test(
    'it joins again, as a new node with its old name: the inventory knows its TPM',
    async () => {
      await eventually(
        'it is Ready',
        180,
        () => first.kubectl('get', 'nodes', '--no-headers'),
        (text) => /^n2 +Ready /m.test(text),
      );
      assert.equal(await cluster.members(), 2);
    },
  );

  await story.test(
    'a machine that is lost is struck off without it, and cannot come back with what it has',
    async () => {
      await stealPapers();
      await cluster.cutPower('n2');
      const said = await must('node', 'remove', 'n2', '--lost');
      assert.match(said, /refuse/);
      assert.equal(await cluster.members(), 1);
      await eventually('its papers are refused', 15, askAsStolen, (text) => /Forbidden/.test(text));
      await cluster.start('n2');
      await eventually(
        'it says that it is disowned',
        120,
        () => cluster.log('n2'),
        (log) => /disowned/.test(log),
      );
      assert.equal((await first.kubectl('get', 'nodes', '-o', 'name')).trim(), 'node/n1');
    },
  );
});
