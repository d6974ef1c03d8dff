import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, NodeShell, SCHEDULING, podPinnedTo } from '../harness/node-shell.ts';

const NAME = 'life';
/** How often a node is promoted to a control plane and demoted again; set TOGGLES=50 for a long run. */
const TOGGLES = Number(env['TOGGLES'] ?? '3');
const CONTROL_PLANE_PORTS = [2379, 2380, 2382, 2383, 6443, 9090, 9091, 10257, 10259];
const PEM_FILES = ['crt', 'key'] as const;
const ENDPOINTS = [
  ...['Kubernetes', 'state'].flatMap((etcd) => [`${etcd} etcd client port`, `${etcd} etcd peer port`]),
  'API server',
  'kubelet',
];
const CONTROL_PLANE_LABEL = 'node-role.kubernetes.io/control-plane';
const WATCH_ENDS = '/run/watch-ends';
/** Calls the API through the node-local balancer until a file ends it, and prints the longest outage in ms. */
const WATCH_API = [
  'now() { echo $(($(date +%s%N) / 1000000)); }',
  'last=$(now); longest=0',
  `while [ ! -e ${WATCH_ENDS} ]; do`,
  '  kubectl --server https://127.0.0.1:6445 --request-timeout 1s get --raw /readyz > /dev/null 2>&1 && last=$(now)',
  '  gap=$(($(now) - last)); [ $gap -gt $longest ] && longest=$gap',
  '  sleep 0.2',
  'done',
  'echo $longest',
].join('\n');
const KUBELET = '/var/lib/cluster/kubernetes/kubelet-client';

await test('a node changes its roles repeatedly, is reset, joins again and is removed after a failure', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
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
  /**
   * Everything that an incomplete demotion would leave behind: processes, listening ports, mounts of pods and of
   * units.
   */
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

  /** Main processes that a change of roles must not restart. */
  const pidsOf = async (machine: string): Promise<string> => {
    const units = ['bootstrapper', 'kubelet', 'cluster-containerd'];
    return (await Promise.all(units.map((unit) => cluster.pidOf(machine, unit)))).join(' ');
  };
  /** Asserts without retries that the promotion was complete when its command ended. */
  const controlPlaneAnswers = async (): Promise<void> => {
    assert.equal(await voters(), 2);
    assert.equal(await second.kubectl('--server', 'https://127.0.0.1:6443', 'get', '--raw', '/readyz'), 'ok');
    assert.deepEqual(await portsOpen(), CONTROL_PLANE_PORTS);
  };
  const setRole = (node: string, ...roles: readonly string[]): Promise<string> =>
    must('node', 'set-role', '--yes', node, ...roles, '--force', '--delete-emptydir-data');

  await story.test(
    `a worker is promoted and demoted ${TOGGLES} times and leaves no process, port or mount behind`,
    async (step) => {
      await eventually(
        'the relay of the worker listens',
        60,
        () => second.run('ss', '-Hltn'),
        (listening) => /:9093 /.test(listening),
      );
      const before = await traces();
      const pids = await pidsOf('n2');
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
        await controlPlaneAnswers();
        const promotedMs = Date.now();
        await must('node', 'set-role', '--yes', 'n2', '--worker', '--force', '--delete-emptydir-data');
        await eventually('one member', 120, members, (count) => count === 1);
        await eventually('its ports are closed', 60, portsOpen, (open) => open.length === 0);
        step.diagnostic(`round ${round}: up ${promotedMs - startMs} ms, down ${Date.now() - promotedMs} ms`);
      }
      assert.equal(await pidsOf('n2'), pids, 'agent, kubelet and containerd were not restarted');
      await eventually('processes, ports and mounts are as before', 120, traces, (now) => now === before);
      await cluster.allReady(['n1', 'n2'], 60);
    },
  );

  await story.test(
    'pods leave a worker that becomes only a control plane, and return after its demotion',
    async () => {
      const pids = await pidsOf('n2');
      await first.run('sh', '-c', `echo '${podPinnedTo('n2')}' | kubectl apply -f -`);
      const visitor = (): Promise<string> =>
        first.kubectl('get', 'pods', '-l', 'app=visitor', '-o', 'jsonpath={.items[*].status.phase}');
      const scheduling = (): Promise<string> => first.kubectl('get', 'node', 'n2', '-o', SCHEDULING);
      await eventually('the pod runs', 120, visitor, (phase) => phase === 'Running');
      await setRole('n2', '--control-plane');
      assert.equal(
        await scheduling(),
        'NoSchedule/',
        'the taint keeps ordinary pods off, and the node is not cordoned any more',
      );
      assert.equal(await voters(), 2);
      await eventually('no node accepts the pod', 60, visitor, (phase) => phase === 'Pending');
      await setRole('n2', '--worker');
      assert.equal(await scheduling(), '/');
      await eventually('the pod is back', 120, visitor, (phase) => phase === 'Running');
      await eventually('its ports are closed', 60, portsOpen, (open) => open.length === 0);
      assert.equal(await pidsOf('n2'), pids, 'agent, kubelet and containerd were not restarted');
      await first.kubectl('delete', 'deployment', 'visitor');
    },
  );

  await story.test(
    'the first control plane passes its role to another node and takes it back without a restart of its processes',
    async (step) => {
      const pids = await pidsOf('n1');
      await setRole('n2', '--control-plane', '--worker');
      await second.run('sh', '-c', `rm -f ${WATCH_ENDS}`);
      const watched = second.run('sh', '-c', WATCH_API);
      await setRole('n1', '--worker');
      await second.run('sh', '-c', `touch ${WATCH_ENDS}`);
      const gapMs = Number(await watched);
      step.diagnostic(`the API was gone for ${gapMs} ms at most`);
      assert.ok(gapMs < 5_000, `right after the promotion the API was gone for ${gapMs} ms`);
      const others = async (): Promise<string> => (await second.etcdctl('root', 'member', 'list')).stdout;
      assert.match(await others(), /^[^\n]*, started, [^\n]*false\n$/, 'etcd has only one member');
      await eventually(
        'no control-plane port is open on n1',
        60,
        () => first.run('sh', '-c', `ss -Hltn | awk '{print $4}' | sed 's/.*://'`),
        (said) =>
          !said
            .split('\n')
            .map(Number)
            .some((port) => CONTROL_PLANE_PORTS.includes(port)),
      );
      assert.equal(await second.kubectl('get', 'node', 'n1', '-o', SCHEDULING), '/');
      await cluster.allReady(['n1', 'n2'], 60, 'n2');
      await setRole('n1', '--control-plane');
      await eventually('two voters', 60, voters, (count) => count === 2);
      assert.equal(await second.kubectl('get', 'node', 'n1', '-o', SCHEDULING), 'NoSchedule/');
      assert.equal(await pidsOf('n1'), pids, 'agent, kubelet and containerd were not restarted');
      await cluster.allReady(['n1', 'n2'], 60);
    },
  );

  /** Copies the kubelet's client certificate and key, as an attacker with the machine's disk could. */
  const stealCredentials = async (): Promise<void> => {
    for (const kind of PEM_FILES) {
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

  await story.test(
    'reset removes a control plane from the cluster and wipes its machine, and the API server refuses its old credentials',
    async () => {
      await stealCredentials();
      assert.equal(await askAsStolen(), 'node/n2');
      const key = await cluster.nodeKey('n2');
      const proofs = await must(
        ...['--output', 'wide', 'node', 'reset', '--yes', 'n2', '--force', '--delete-emptydir-data'],
      );
      for (const endpoint of ENDPOINTS)
        assert.match(proofs, new RegExp(`credentials test: ${endpoint} on n1 .*refused`), endpoint);
      assert.equal(await members(), 1);
      await eventually(
        'Kubernetes has no Node object of n2',
        60,
        () => first.kubectl('get', 'nodes', '-o', 'name'),
        (text) => text.trim() === 'node/n1',
      );
      // Only a restart clears the TPM register with the node lock. A local machine powers off instead of restarting.
      await eventually(
        'the machine has powered off',
        120,
        () => cluster.try('n2', 'true'),
        ({ stderr }) => /node is not running/.test(stderr),
      );
      await cluster.start('n2');
      await eventually(
        'the machine has a new key',
        180,
        () => cluster.nodeKey('n2'),
        (now) => now !== key,
      );
      await eventually('the API server refuses the old credentials', 15, askAsStolen, (said) =>
        /Forbidden/.test(said),
      );
    },
  );

  await story.test(
    'the reset machine joins again as a new node with its old name from the inventory',
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
    'the remaining control planes remove a control-plane label and taint that a demotion left behind',
    async () => {
      const scheduling = (): Promise<string> => first.kubectl('get', 'node', 'n2', '-o', SCHEDULING);
      await first.kubectl('label', 'node', 'n2', `${CONTROL_PLANE_LABEL}=`);
      await first.kubectl('taint', 'node', 'n2', `${CONTROL_PLANE_LABEL}:NoSchedule`);
      assert.equal(await scheduling(), 'NoSchedule/');
      await first.run('systemctl', 'restart', 'bootstrapper'); // the role server removes such labels and taints when it starts, and when the list of control planes changes
      await eventually('n2 takes ordinary pods', 120, scheduling, (now) => now === '/');
      assert.equal(
        (await first.kubectl('get', 'nodes', '-l', CONTROL_PLANE_LABEL, '-o', 'name')).trim(),
        'node/n1',
      );
    },
  );

  await story.test(
    'node remove --lost deletes a node without its machine, and the machine cannot return with its old state',
    async () => {
      await stealCredentials();
      await cluster.cutPower('n2');
      const said = await must('--output', 'wide', 'node', 'remove', '--yes', 'n2', '--lost');
      assert.match(said, /refuse/);
      assert.equal(await cluster.members(), 1);
      await eventually('the API server refuses its credentials', 15, askAsStolen, (text) =>
        /Forbidden/.test(text),
      );
      await cluster.start('n2');
      await eventually(
        'the node logs that it was removed',
        120,
        () => cluster.log('n2'),
        (log) => /this node was removed/.test(log),
      );
      assert.equal((await first.kubectl('get', 'nodes', '-o', 'name')).trim(), 'node/n1');
    },
  );
});
