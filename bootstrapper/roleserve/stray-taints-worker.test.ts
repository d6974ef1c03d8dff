import { expect, test } from '@jest/globals';
import { RemoteError } from '../../internal/rpc/index.ts';
import { FakeClock, FakeCommands, settle, superviseForTest } from '../../internal/testing/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { membership } from './fake-node.ts';
import { strayTaintsWorker } from './stray-taints-worker.ts';
import { createFakeRoleValues } from './fake-role-values.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const WORKER = [NodeRole.KUBERNETES_WORKER];
const LABEL = 'node-role.kubernetes.io/control-plane';
const OWN_TAINT = { key: 'gpu', value: 'yes', effect: 'NoSchedule' };

const UNKNOWN = {
  code: 'curator-node-unknown',
  message: 'looking for it',
  fix: '',
  fault: 'operator',
  exit: 'precondition',
  retryable: false,
} as const;

const entry = (nodeId: string) => ({ nodeId, host: '198.18.0.11', curator: true, apiServer: true });

/** The worker runs on n1. The nodes in `tainted` have the control-plane taint; `roles` are the recorded roles. */
function createTaintedNodes(
  tainted: readonly string[],
  roles: Readonly<Record<string, readonly NodeRole[]>>,
) {
  const values = createFakeRoleValues();
  let isDown = false;
  const parts = new Map<string, readonly string[]>();
  const off = new Set<string>();
  const commands = new FakeCommands((argv) => {
    if (isDown) return { exitCode: 1, output: 'The connection to the server was refused' };
    if (!argv.includes('get')) return undefined;
    const items = tainted.map((name) => ({
      metadata: { name, resourceVersion: '7' },
      spec: { taints: [{ key: LABEL, effect: 'NoSchedule' }, OWN_TAINT] },
    }));
    return JSON.stringify({ items });
  });
  const client = {
    getNode: ({ node }: { node: string }) => {
      const known = roles[node];
      return known === undefined
        ? Promise.reject(new RemoteError(UNKNOWN))
        : Promise.resolve({
            node: {
              ...{ state: NodeState.UP, roles: known },
              health: off.has(node) ? NodeHealth.TIMEOUT : NodeHealth.HEALTHY,
              status: { controlPlane: (parts.get(node) ?? []).map((name) => ({ name })) },
            },
          });
    },
  } as unknown as CuratorConnection['client'];
  const curators: Curators = {
    use: (work, { signal }) => work({ endpoint: 'curator', client, of: () => ({}) as never }, signal),
  };
  const start = () => {
    const clock = new FakeClock();
    const tree = superviseForTest(strayTaintsWorker({ reads: values, curators, clock, commands }), { clock });
    values.clusterMembership.set(membership);
    values.clusterDirectory.set([entry('node-1')]);
    return tree;
  };
  const patches = () => commands.runs.filter((argv) => argv.includes('patch'));
  const setDown = (now: boolean): void => void (isDown = now);
  return { values, commands, start, patches, setDown, parts, off };
}
const serving = { version: 'v1', controlPlane: true };

test('a control plane removes the taint of a node that is no control plane any more, and nothing else', async () => {
  const cluster = createTaintedNodes(['n1', 'n2', 'n3', 'nobody'], { n1: CONTROL, n2: WORKER, n3: CONTROL });
  await using tree = cluster.start();
  cluster.values.kubernetesStatus.set(serving);
  await settle();
  expect(cluster.commands.runs).toEqual([]); // the demoted node has time to remove its taint itself first
  await tree.clock.advance(10_000);
  expect(cluster.patches()).toEqual([expect.arrayContaining(['patch', 'node', 'n2'])]);
  expect(JSON.parse(cluster.patches()[0]?.at(-1) ?? '')).toEqual({
    metadata: {
      resourceVersion: '7',
      labels: { [LABEL]: null, 'node.kubernetes.io/exclude-from-external-load-balancers': null },
    },
    spec: { taints: [OWN_TAINT] },
  });
});

test('a control plane checks the taints again only when control planes are added or removed; a worker never checks them', async () => {
  const cluster = createTaintedNodes(['n1'], { n1: CONTROL });
  await using tree = cluster.start();
  await tree.clock.advance(60_000);
  expect([cluster.commands.runs.length, tree.at('root').note]).toEqual([
    0,
    'idle: no Kubernetes control plane on this node',
  ]);
  cluster.values.kubernetesStatus.set(serving);
  await settle();
  await tree.clock.advance(10_000);
  await tree.clock.advance(600_000);
  expect(cluster.commands.runs).toHaveLength(1);
  cluster.values.clusterDirectory.set([entry('node-1'), entry('node-3')]);
  await settle();
  await tree.clock.advance(10_000);
  expect(cluster.commands.runs).toHaveLength(2);
  expect(tree.at('root.watch')).toMatchObject({ state: 'healthy', restarts: 0 });
});

test('a node that is off or is still stopping its control plane keeps its taint until it reports that all parts are down', async () => {
  const cluster = createTaintedNodes(['n2', 'n3', 'n4'], { n2: WORKER, n3: WORKER, n4: WORKER });
  cluster.off.add('n2');
  cluster.parts.set('n3', ['kube-scheduler']);
  await using tree = cluster.start();
  cluster.values.kubernetesStatus.set(serving);
  await settle();
  await tree.clock.advance(10_000);
  expect(cluster.patches()).toEqual([expect.arrayContaining(['patch', 'node', 'n4'])]);
  expect(tree.at('root.watch').note).toBe('control plane to stop on n2, n3');
  cluster.parts.clear();
  cluster.off.clear();
  await tree.clock.advance(60_000);
  expect(cluster.patches().map((argv) => argv.find((each) => /^n\d$/.test(each)))).toEqual(
    expect.arrayContaining(['n2', 'n3']),
  );
});

test('a control plane retries until the API server answers', async () => {
  const cluster = createTaintedNodes(['n2'], { n2: WORKER });
  await using tree = cluster.start();
  cluster.setDown(true);
  cluster.values.kubernetesStatus.set(serving);
  await settle();
  for (let minute = 0; minute < 5; minute++) await tree.clock.advance(60_000);
  expect([cluster.patches().length, cluster.commands.runs.length > 2]).toEqual([0, true]);
  cluster.setDown(false);
  for (let step = 0; step < 4; step++) await tree.clock.advance(60_000);
  expect(cluster.patches()).toHaveLength(1);
});
