import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import {
  dnsIsDistributed,
  eventually,
  NodeShell,
  LIST_RUNNING_UNITS,
  PAUSE_IMAGE,
  SCHEDULING,
} from '../harness/node-shell.ts';
import { editJoinSettings, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'admin';
const EXIT_PRECONDITION = 5;
const SETTLED_MS = 5_000;

/** The fields of an audit.k8s.io/v1 Event that this story reads. */
interface AuditEntry {
  readonly level: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly name?: string; readonly subresource?: string };
}

/** A PodDisruptionBudget that permits no eviction, for two pods. */
const WORKLOAD = JSON.stringify({
  apiVersion: 'v1',
  kind: 'List',
  items: [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'sleepers' },
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: 'sleepers' } },
        template: {
          metadata: { labels: { app: 'sleepers' } },
          spec: {
            nodeSelector: { 'kubernetes.io/hostname': 'n2' },
            containers: [{ name: 'sleep', image: PAUSE_IMAGE }],
          },
        },
      },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'sleepers' },
      spec: { minAvailable: 2, selector: { matchLabels: { app: 'sleepers' } } },
    },
  ],
});

/** The inventory gives n2 a label. */
const listWithLabel = editJoinSettings(({ join }) => {
  for (const entry of join.inventory)
    if (entry.name === 'n2') Object.assign(entry, { labels: { pool: 'edge' } });
});

await test('an operator manages a node: labels, logs, drain with a budget, role guards, removal', async (story) => {
  await using bench = await createHarness();
  const machines = new StoryCluster(bench, NAME);
  await machines.machines({ controlPlanes: 1, workers: 1 }, listWithLabel);
  await machines.up();
  const cluster = await bench.cluster(NAME);
  const first = new NodeShell(bench, NAME);
  const second = new NodeShell(bench, NAME, 'n2');
  const must = (...args: readonly string[]) => bench.must('--workspace', cluster.paths.workspace, ...args);
  const cli = (...args: readonly string[]) => bench.cli('--workspace', cluster.paths.workspace, ...args);

  await story.test('CoreDNS runs on both nodes, although its pods were created before n2 joined', () =>
    dnsIsDistributed((...args) => first.kubectl(...args)),
  );

  await story.test('a label of the inventory is in Kubernetes', async () => {
    await eventually(
      'the label of n2',
      30,
      () => first.kubectl('get', 'node', 'n2', '--output', 'jsonpath={.metadata.labels}'),
      (labels) => labels.includes('"pool":"edge"'),
    );
  });

  await story.test('a change of labels changes the node record and restarts no process', async () => {
    const units = async () =>
      `${await first.run('sh', '-c', LIST_RUNNING_UNITS)}\n${await second.run('sh', '-c', LIST_RUNNING_UNITS)}`;
    await eventually(
      'the relay listens, behind the pods of its worker',
      60,
      () => second.run('ss', '-Hltn'),
      (listening) => /:9093 /.test(listening),
    );
    const before = await units();
    for (const unit of [
      'cluster-etcd-state',
      'cluster-etcd-kubernetes',
      'cluster-joinservice',
      'kubelet',
      'bootstrapper',
    ])
      assert.match(before, new RegExp(`${unit}.service`));
    for (const node of ['n1', 'n2'])
      assert.match(await must('node', 'label', node, 'zone=a', 'absent-'), /zone=a/);
    await eventually(
      'the labels of both nodes are in Kubernetes',
      30,
      () => first.kubectl('get', 'nodes', '--selector', 'zone=a', '--output', 'name'),
      (names) => names.includes('node/n1') && names.includes('node/n2'),
    );
    // A change reaches the node within a second; the rest of this time would show a restart.
    await delay(SETTLED_MS);
    assert.equal(await units(), before);
  });

  await story.test(
    'labels that kubectl set stay, and a label that node label removes disappears from Kubernetes',
    async () => {
      await first.kubectl('label', 'node', 'n2', 'team=a');
      await must('node', 'label', 'n2', 'zone-', 'rack=1');
      const labels = await eventually(
        'the label is gone',
        30,
        () => first.kubectl('get', 'node', 'n2', '--output', 'jsonpath={.metadata.labels}'),
        (text) => !text.includes('"zone"') && text.includes('"rack":"1"'),
      );
      assert.match(labels, /"team":"a"/);
      assert.match(labels, /"kubernetes.io\/hostname":"n2"/);
      const refused = await cli('node', 'label', 'n2', 'kubernetes.io/hostname=x');
      assert.equal(refused.code, 2);
    },
  );

  await story.test(
    'taints that kubectl set stay, and a taint that node taint removes disappears from Kubernetes',
    async () => {
      const taints = () => first.kubectl('get', 'node', 'n2', '--output', 'jsonpath={.spec.taints}');
      await first.kubectl('taint', 'node', 'n2', 'theirs=x:PreferNoSchedule');
      await must('node', 'taint', 'n2', 'dedicated=gpu:PreferNoSchedule', 'spare:NoSchedule');
      const both = await eventually(
        'both taints are in Kubernetes',
        30,
        taints,
        (text) => text.includes('"dedicated"') && text.includes('"spare"'),
      );
      assert.match(both, /"key":"theirs"/);
      await must('node', 'taint', 'n2', 'dedicated-', 'spare:NoSchedule-');
      const after = await eventually(
        'the taints are gone',
        30,
        taints,
        (text) => !text.includes('"dedicated"') && !text.includes('"spare"'),
      );
      assert.match(after, /"key":"theirs"/);
      await first.kubectl('taint', 'node', 'n2', 'theirs-');
      const refused = await cli('node', 'taint', 'n2', 'node.kubernetes.io/not-ready:NoExecute');
      assert.equal(refused.code, 2);
    },
  );

  await story.test(
    'node logs shows the backlog of a runnable or unit, and refuses a unit of another program',
    async () => {
      const logs = async (...flags: readonly string[]): Promise<readonly string[]> =>
        (await must('node', 'logs', 'n2', ...flags)).split('\n').filter((line) => line !== '');
      const said = await logs('--path', 'root.rolefetch', '--backlog', '5');
      assert.ok(said.length > 0 && said.length <= 5, `${said.length} lines`);
      for (const line of said) assert.match(line, / root\.rolefetch\.watch the cluster assigns roles /);
      assert.deepEqual(await logs('--path', 'root.rolefetch.watch', '--exact', '--backlog', '5'), said);
      assert.deepEqual(await logs('--path', 'root.rolefetch', '--exact', '--backlog', '5'), []);
      assert.match(await must('node', 'logs', 'n2', '--unit', 'kubelet', '--backlog', '3'), /kubelet/);
      const refused = await cli('node', 'logs', 'n2', '--unit', 'sshd');
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, /nodestream-unit-unknown/);
    },
  );

  await story.test(
    'node logs --audit shows an exec and who read a Secret, but no body of a Secret, and no worker has such a log',
    async () => {
      const secret = 'c2VjcmV0LW9mLXRoZS1zdG9yeQ';
      await first.kubectl('create', 'secret', 'generic', 'audited', `--from-literal=key=${secret}`);
      await first.kubectl('get', 'secret', 'audited', '-o', 'json');
      const pod = await first.kubectl(
        ...['get', 'pods', '--namespace', 'kube-system', '-l', 'k8s-app=kube-proxy'],
        ...['-o', 'jsonpath={.items[0].metadata.name}'],
      );
      // The exec fails, because the image has no program "true". The audit log has the attempt nevertheless.
      await first.exitCode('kubectl', 'exec', '--namespace', 'kube-system', pod, '--', 'true');
      const text = await eventually(
        'the log has the exec',
        30,
        () => must('node', 'logs', 'n1', '--audit', '--backlog', '5000'),
        (log) => log.includes(`/pods/${pod}/exec`),
      );
      const entries = text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as AuditEntry);
      const exec = entries.find(
        ({ objectRef }) => objectRef?.subresource === 'exec' && objectRef.name === pod,
      );
      assert.equal(exec?.user.username, 'kubernetes-admin');
      assert.match(exec.requestURI, /command=true/);
      const ofSecret = entries.filter(({ objectRef }) => objectRef?.name === 'audited');
      assert.deepEqual(new Set(ofSecret.map(({ verb }) => verb)), new Set(['create', 'get']));
      for (const { level } of ofSecret) assert.equal(level, 'Metadata');
      for (const body of [secret, Buffer.from(secret).toString('base64')]) assert.ok(!text.includes(body));
      const modes = await first.run(
        'stat',
        '-c',
        '%a %U',
        '/var/log/kubernetes',
        '/var/log/kubernetes/audit.log',
      );
      assert.equal(modes.trim(), '700 root\n600 root');
      const refused = await cli('node', 'logs', 'n2', '--audit');
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, /nodestream-audit-missing/);
    },
  );

  await story.test(
    'a control plane admits ordinary pods and excludes them again without restarts, and node logs --follow prints both changes',
    async () => {
      const before = await first.run('sh', '-c', LIST_RUNNING_UNITS);
      const scheduling = () => first.kubectl('get', 'node', 'n1', '-o', SCHEDULING);
      assert.equal(await scheduling(), 'NoSchedule/');
      const follow = ['node', 'logs', 'n1', '--path', 'root.rolefetch', '--backlog', '1', '--follow'];
      const follower = bench.startCli('--workspace', cluster.paths.workspace, ...follow);
      let told = '';
      follower.stdout?.on('data', (chunk: Buffer) => (told += chunk.toString()));
      const ended = once(follower, 'close');
      const lines = (): readonly string[] =>
        told
          .trim()
          .split('\n')
          .filter((line) => line !== '');
      await eventually(
        'the follower prints the last line of the log',
        30,
        async () => lines().length,
        (count) => count === 1,
      );
      await must('node', 'set-role', '--yes', 'n1', '--control-plane', '--worker');
      assert.equal(await scheduling(), '/');
      await must('node', 'set-role', '--yes', 'n1', '--control-plane', '--force', '--delete-emptydir-data');
      assert.equal(await scheduling(), 'NoSchedule/');
      await eventually(
        'the follower prints both role changes',
        30,
        async () => lines().map((line) => /KubernetesWorker/.test(line)),
        (work) => work.includes(true) && work.at(0) === false && work.at(-1) === false,
      );
      follower.kill('SIGINT');
      await ended;
      for (const line of lines()) assert.match(line, / root\.rolefetch\.watch /);
      const done = await must('node', 'logs', 'n1', '--path', 'root.kubernetes', '--backlog', '50');
      assert.match(done, /allowing ordinary pods\b.*keeping ordinary pods off/s);
      assert.equal(await first.run('sh', '-c', LIST_RUNNING_UNITS), before);
    },
  );

  await story.test('node show prints the tree of runnables with their states', async () => {
    const shown = await must('node', 'show', 'n2');
    assert.match(shown, /kubernetes +running/);
    assert.match(shown, /controlplane +idle .*role absent/);
  });

  await story.test(
    'node metrics shows the metrics of the programs on a node through the curator',
    async () => {
      const text = await must('node', 'metrics', 'n1');
      assert.match(text, /cluster_program_info\{program="agent"/);
      assert.match(text, /cluster_program_info\{program="joinservice"/);
      for (const etcd of ['state', 'kubernetes'])
        assert.match(text, new RegExp(`etcd_server_has_leader\\{etcd="${etcd}"\\} 1`));
    },
  );

  await story.test(
    'node drain respects the budget, names the pods that it waits for, and times out',
    async () => {
      await first.run('sh', '-c', `echo '${WORKLOAD}' | kubectl apply -f -`);
      await eventually(
        'both pods run',
        120,
        () => first.kubectl('get', 'deployment', 'sleepers', '-o', 'jsonpath={.status.readyReplicas}'),
        (ready) => ready === '2',
      );
      const blocked = await cli('node', 'drain', 'n2', '--timeout', '10s');
      assert.equal(blocked.code === 0, false);
      assert.match(blocked.stderr, /default\/sleepers-.*disruption budget/s);
      await first.kubectl('delete', 'poddisruptionbudget', 'sleepers');
      await first.kubectl('delete', 'deployment', 'sleepers');
      await must('node', 'drain', 'n2', '--timeout', '5m');
      await must('node', 'uncordon', 'n2');
    },
  );

  await story.test('the last control plane can neither change its role nor leave', async () => {
    for (const args of [
      ['node', 'set-role', '--yes', 'n1', '--worker'],
      ['node', 'remove', '--yes', 'n1'],
    ]) {
      const { code, stderr } = await cli(...args);
      assert.equal(code, EXIT_PRECONDITION);
      assert.match(stderr, /last control-plane node/);
    }
    const dry = await must('node', 'set-role', '--yes', 'n2', '--control-plane', '--worker', '--dry-run');
    assert.match(dry, /1 of 1 voter needed, 1 healthy → 2 of 2 voters needed, 2 healthy/);
  });

  await story.test('a removed node is refused by the curator and has no Node object', async () => {
    const out = await must(
      ...['--output', 'wide', 'node', 'remove', '--yes', 'n2', '--delete-emptydir-data', '--force'],
    );
    assert.match(out, /its key is refused/);
    assert.equal((await cli('node', 'show', 'n2')).code, EXIT_PRECONDITION);
    assert.equal(await first.exitCode('kubectl', 'get', 'node', 'n2'), 1);
  });

  await story.test('the audit log has all decisions and passes its verification', async () => {
    const log = await must('audit', 'ls');
    for (const method of ['UpdateNodeLabels', 'UpdateNodeTaints', 'SetNodeState', 'DeleteNode'])
      assert.match(log, new RegExp(method));
    await must('audit', 'verify');
  });
});
