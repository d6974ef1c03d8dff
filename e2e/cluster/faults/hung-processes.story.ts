import assert from 'node:assert/strict';
import { env } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';

const NAME = 'hung';
const NODES = ['n1', 'n2', 'n3', 'n4'] as const;
const WORKER = 'n4';
/** How long the API server is stopped with SIGSTOP. */
const HUNG_MS = Number(env['HUNG_SECONDS'] ?? '200') * 1000;
/**
 * Maximum age of a kubelet lease. The kubelet renews its lease every ten seconds; the controllers treat a
 * node as lost after fifty.
 */
const LEASE_MS = 40_000;
const MOVED_MS = 5_000;
/** How long the nodes are watched after another part was stopped: longer than a lease lives. */
const WATCHED_MS = 65_000;
const LEASES = `jsonpath={range .items[*]}{.metadata.name} {.spec.renewTime}{"\\n"}{end}`;
const WATCH_ENDS = '/run/watch-ends';
/**
 * Calls the API through the node-local balancer until it is told to end, and prints the longest time without
 * a response in ms.
 */
const WATCH_API = `
const { existsSync } = require('node:fs');
const options = { host: '127.0.0.1', port: 6445, path: '/readyz', rejectUnauthorized: false, agent: false, timeout: 1000 };
let last = Date.now(), longest = 0;
const ask = () => {
  if (existsSync('${WATCH_ENDS}')) return console.log(longest);
  const asked = require('node:https').get(options, (answer) => {
    answer.resume();
    answer.on('end', () => (last = Date.now()));
  });
  asked.on('timeout', () => asked.destroy());
  asked.on('error', () => undefined);
  asked.on('close', () => {
    longest = Math.max(longest, Date.now() - last);
    setTimeout(ask, 300);
  });
};
ask();`;

await test('hung processes are detected and affect nothing else', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  await cluster.allReady(NODES, 60);
  const workspace = await cluster.workspace();
  await eventually(
    'cluster status reports no problem',
    120,
    () => bench.cli('--workspace', workspace, 'status'),
    ({ code }) => code === 0,
  );
  const { preferred, users } = await mostUsed(bench, cluster);
  const others = ['n1', 'n2', 'n3'].filter((name) => name !== preferred);
  const [from = ''] = others;

  await story.test('no node becomes NotReady while an API server is stopped for 200 s', async (step) => {
    const watching = cluster.run(WORKER, '/usr/lib/cluster/node', '-e', WATCH_API);
    const pid = await apiServerOf(cluster, preferred);
    await cluster.run(preferred, 'kill', '-STOP', pid);
    const hungMs = Date.now();
    const [, seen] = await Promise.all([
      statusNames(step, bench, cluster, `kube-apiserver on node ${preferred}`),
      watchNodes(cluster, { from, untilMs: hungMs + HUNG_MS }),
    ]);
    await cluster.try(preferred, 'kill', '-CONT', pid); // the kubelet may have killed the API server meanwhile
    await cluster.run(WORKER, 'touch', WATCH_ENDS);
    const longestMs = Number(await watching);
    step.diagnostic(`longest time without an answer on ${WORKER}: ${longestMs} ms`);
    step.diagnostic(
      `oldest lease ${seen.oldestLeaseMs} ms; not ready: ${seen.notReady.join(', ') || 'none'}`,
    );
    await moved(step, cluster, users, hungMs);
    assert.deepEqual(seen.notReady, []);
    assert.ok(seen.oldestLeaseMs < LEASE_MS, `a lease was ${seen.oldestLeaseMs} ms old`);
    assert.ok(longestMs < MOVED_MS + 1_500, `no answer for ${longestMs} ms on ${WORKER}`);
  });

  await story.test('after SIGCONT the API server serves again', async () => {
    await eventually(
      `${preferred} answers`,
      120,
      () => verdictsOf(bench, cluster, WORKER),
      (verdicts) => verdicts.length === 3 && verdicts.every((verdict) => verdict === 'healthy'),
    );
    await cluster.allReady(NODES, 60, from);
  });

  // Services of the worker come first: `cluster status` lists the nodes by name, and names a restart for two minutes.
  const parts = [
    { name: 'containerd', on: WORKER, pid: unitOf('cluster-containerd.service') },
    { name: 'kubelet', on: WORKER, pid: unitOf('kubelet.service') },
    { name: 'flannel', on: WORKER, pid: programOf('flanneld') },
    { name: 'kube-proxy', on: WORKER, pid: programOf('kube-proxy') },
    { name: 'Kubernetes etcd', on: preferred, pid: unitOf('cluster-etcd-kubernetes.service') },
    { name: 'state etcd', on: preferred, pid: unitOf('cluster-etcd-state.service') },
    { name: 'join service and curator', on: preferred, pid: unitOf('cluster-joinservice.service') },
  ] as const;
  for (const { name, on, pid: pidOf } of parts)
    await story.test(
      `a stopped ${name} is named first, restarted, and costs no node its lease`,
      async (step) => {
        const pid = await pidOf(cluster, on);
        await cluster.run(on, 'kill', '-STOP', pid);
        const hungMs = Date.now();
        const [seen] = await Promise.all([
          watchNodes(cluster, { from, untilMs: hungMs + WATCHED_MS }),
          statusNames(step, bench, cluster, `${name} on node ${on}`),
          restarted(step, { name, pid, hungMs }, () => pidOf(cluster, on)),
        ]);
        step.diagnostic(
          `oldest lease ${seen.oldestLeaseMs} ms; not ready: ${seen.notReady.join(', ') || 'none'}`,
        );
        assert.deepEqual(seen.notReady, []);
        assert.ok(seen.oldestLeaseMs < LEASE_MS, `a lease was ${seen.oldestLeaseMs} ms old`);
      },
    );

  await story.test('cluster status reports no problem in the end', async () => {
    await cluster.allReady(NODES, 60, from);
    await eventually(
      'cluster status reports no problem',
      240,
      () => bench.cli('--workspace', workspace, 'status'),
      ({ code }) => code === 0,
    );
  });
});

type PidOf = (cluster: StoryCluster, node: string) => Promise<string>;

/** The main process of a unit. */
function unitOf(unit: string): PidOf {
  return (cluster, node) => cluster.pidOf(node, unit);
}

/** The oldest process that runs a program, also inside a container; empty while none does. */
function programOf(program: string): PidOf {
  return (cluster, node) => cluster.sh(node, `pgrep -o -x ${program} || true`);
}

/** Waits until another process has taken the place of the stopped one. */
async function restarted(
  step: TestContext,
  { name, pid, hungMs }: { readonly name: string; readonly pid: string; readonly hungMs: number },
  pidNow: () => Promise<string>,
): Promise<void> {
  await eventually(`another process of ${name}`, 150, pidNow, (now) => !['', '0', pid].includes(now));
  step.diagnostic(`${name} was restarted after ${Date.now() - hungMs} ms`);
}

/** The control plane to whose API server most nodes are connected, and the names of these nodes. */
async function mostUsed(
  bench: Harness,
  cluster: StoryCluster,
): Promise<{ readonly preferred: string; readonly users: readonly string[] }> {
  const users = new Map<string, string[]>();
  for (const node of NODES) {
    const metrics = await metricsOf(bench, cluster, node);
    for (const name of ['n1', 'n2', 'n3']) {
      const server = `server="${await cluster.address(name)}:6443"`;
      const line = metrics.find((each) =>
        each.startsWith(`cluster_balancer_upstream_connections{${server}}`),
      );
      assert.ok(line !== undefined, `the metrics of the balancer of ${node} do not contain ${name}`);
      if (!line.endsWith(' 0')) users.set(name, [...(users.get(name) ?? []), node]);
    }
  }
  const [most] = [...users].toSorted(([, a], [, b]) => b.length - a.length);
  assert.ok(most !== undefined, 'no node uses its balancer');
  return { preferred: most[0], users: most[1] };
}

function apiServerOf(cluster: StoryCluster, node: string): Promise<string> {
  return cluster.sh(node, 'pgrep -o -x kube-apiserver');
}

/**
 * The nodes that were not Ready at some time, and the maximum age of a kubelet lease, as another control
 * plane reports them.
 */
async function watchNodes(
  cluster: StoryCluster,
  { from, untilMs }: { readonly from: string; readonly untilMs: number },
): Promise<{ readonly notReady: readonly string[]; readonly oldestLeaseMs: number }> {
  const notReady = new Set<string>();
  let oldestLeaseMs = 0;
  const own = ['--server', 'https://127.0.0.1:6443', '--request-timeout', '5s'];
  while (Date.now() < untilMs) {
    for (const node of (await cluster.readiness(from)).split(' '))
      if (!node.endsWith('=True')) notReady.add(node);
    const leases = await cluster.run(
      ...([from, 'kubectl', ...own, '-n', 'kube-node-lease', 'get', 'leases', '-o', LEASES] as const),
    );
    for (const line of leases.split('\n'))
      oldestLeaseMs = Math.max(oldestLeaseMs, Date.now() - Date.parse(line.split(' ')[1] ?? ''));
    await delay(2_000);
  }
  return { notReady: [...notReady], oldestLeaseMs };
}

/** Waits until `what` is in the first problem that `cluster status` lists. */
async function statusNames(
  step: TestContext,
  bench: Harness,
  cluster: StoryCluster,
  what: string,
): Promise<void> {
  const startedMs = Date.now();
  const workspace = await cluster.workspace();
  const first = await eventually(
    `cluster status reports ${what} first`,
    60,
    async () => {
      const { stdout } = await bench.cli('--workspace', workspace, 'status');
      return stdout.split('\n').find((line) => line.startsWith('! ')) ?? '';
    },
    (line) => line.includes(what),
  );
  step.diagnostic(`status after ${Date.now() - startedMs} ms: ${first}`);
}

/** Asserts that the balancers of `nodes` closed their connections to the frozen API server within `MOVED_MS`. */
async function moved(
  step: TestContext,
  cluster: StoryCluster,
  nodes: readonly string[],
  hungMs: number,
): Promise<void> {
  for (const node of nodes) {
    const log = await cluster.run(
      ...([node, 'journalctl', '-u', 'cluster-apilb', '--no-pager', '-o', 'short-unix'] as const),
    );
    const line = log.split('\n').find((each) => each.includes('closing the connections'));
    assert.ok(line !== undefined, `the balancer of ${node} closed no connections`);
    const afterMs = Math.round(Number(line.split(' ')[0]) * 1000 - hungMs);
    step.diagnostic(`the balancer of ${node} closed its connections after ${afterMs} ms`);
    assert.ok(afterMs < MOVED_MS, `the balancer of ${node} closed its connections after ${afterMs} ms`);
  }
}

/** The verdict of a node's balancer about each API server, from its metrics. */
async function verdictsOf(bench: Harness, cluster: StoryCluster, node: string): Promise<readonly string[]> {
  const lines = await metricsOf(bench, cluster, node);
  const verdict = /^cluster_balancer_upstream_verdict\{.*verdict="([a-z]+)"/;
  return lines.flatMap((line) => verdict.exec(line)?.[1] ?? []);
}

async function metricsOf(bench: Harness, cluster: StoryCluster, node: string): Promise<readonly string[]> {
  return (await bench.must('--workspace', await cluster.workspace(), 'node', 'metrics', node)).split('\n');
}
