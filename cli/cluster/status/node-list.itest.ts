import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { DiskFiles } from '../../../internal/file/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { createCliHarness, type CliHarness, type CliRun } from '../../app/fake-cli.ts';
import { createCuratorHarness } from '../curator/fake-curator.ts';
import { createKubernetes } from '../curator/fake-kubernetes.ts';

/** Four times what an unloaded machine of two cores needs, because tests run beside others. */
const MAX_MS = 2_000;

const nodeNamed = (name: string, index: number) => ({
  nodeId: `node-${index}`,
  name,
  state: NodeState.UP,
  roles: [NodeRole.KUBERNETES_WORKER],
  health: NodeHealth.HEALTHY,
  createdMs: BigInt(Date.now() - 3_600_000),
  labels: { zone: `z${index % 2}` },
  status: { address: `192.0.2.${index}`, kubernetesVersion: 'v1.36.1', agentVersion: '0.1.0' },
});

const kubeNode = (name: string, ready: string, unschedulable?: true) => ({
  metadata: { name },
  spec: { unschedulable },
  status: { conditions: [{ type: 'Ready', status: ready }] },
});

let cli: CliHarness;
const open: AsyncDisposable[] = [];
beforeEach(async () => {
  cli = await createCliHarness();
});
afterEach(async () => {
  for (const each of [...open.splice(0), cli]) await each[Symbol.asyncDispose]();
});

/** @param names of the nodes, at each call */
async function startCluster(names = (): readonly string[] => ['n1', 'n2', 'n10']): Promise<void> {
  const harness = await createCuratorHarness(
    { listNodes: async () => ({ nodes: names().map(nodeNamed) }) },
    { listJoins: async () => ({ joins: [] }), getKeys: async () => ({}) },
  );
  open.push(harness);
  await cli.copy(harness.files, '/owner', 'owner');
}

async function startKubernetes(answer: () => unknown): Promise<void> {
  const object = { metadata: { annotations: {} }, spec: {} };
  const options = { address: '127.0.0.1', port: 0, answer };
  open.push(await createKubernetes(new DiskFiles(), join(cli.root, 'owner/kubeconfig'), object, options));
}

const list = (...args: readonly string[]): Promise<CliRun> => cli.run(['-w', 'owner', 'node', 'ls', ...args]);

describe('cluster node ls', () => {
  test('shows whether the kubelet of each node is ready', async () => {
    await startCluster();
    await startKubernetes(() => ({ items: [kubeNode('n1', 'True'), kubeNode('n2', 'False')] }));
    const { code, out, err } = await list();
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/^NAME +STATUS +KUBELET +ROLES/);
    expect(out).toMatch(/^n1 +Healthy +Ready +worker +1h /m);
    expect(out).toMatch(/^n2 +Healthy +NotReady +worker/m);
    expect(out).toMatch(/^n10 +Healthy +<none> +worker/m);
    const json = await list('-o', 'json');
    expect(JSON.parse(json.out)).toMatchObject({
      data: {
        nodes: [{ name: 'n1', kubelet: 'Ready' }, { name: 'n2', kubelet: 'NotReady' }, { name: 'n10' }],
      },
    });
  });

  test('shows that no further pods are placed on a node, as kubectl does', async () => {
    await startCluster();
    await startKubernetes(() => ({ items: [kubeNode('n1', 'True', true), kubeNode('n2', 'True')] }));
    expect((await list()).out).toMatch(/^n1 +Healthy +Ready,SchedulingDisabled +worker/m);
    const { data } = JSON.parse((await list('-o', 'json')).out) as { data: { nodes: readonly unknown[] } };
    expect(data.nodes.slice(0, 2)).toMatchObject([
      { kubelet: 'Ready', isCordoned: true },
      { kubelet: 'Ready' },
    ]);
  });

  test('lists the nodes without waiting when the API server does not answer', async () => {
    await startCluster();
    await startKubernetes(() => new Error('closed'));
    const { code, out } = await list();
    expect(code).toBe(0);
    expect(out).toMatch(/^n1 +Healthy +Unknown +worker/m);
  });

  test('answers at once when its code is compiled', async () => {
    await startCluster();
    await startKubernetes(() => ({ items: [] }));
    await list();
    const runs = [await list(), await list(), await list()].map(({ tookMs }) => tookMs);
    expect(Math.min(...runs)).toBeLessThan(MAX_MS);
  });

  test('selects nodes by their labels, and prints names for other programs', async () => {
    await startCluster();
    expect((await list('-l', 'zone=z0', '-o', 'name')).out).toBe('n1\nn10\n');
    expect((await list('-l', 'zone=z9', '-o', 'name')).out).toBe('');
    expect((await list('-l', 'zone!=z0', '--no-headers')).out).toMatch(/^n2 +Healthy [^\n]*\n$/);
    expect((await list('-o', 'wide')).out).toMatch(/LABELS.*\nn1 .* zone=z0 /);
    expect(await list('-l', 'zone in (z0)')).toMatchObject({ code: 2, out: '' });
  });

  test('--watch writes the list when it changes, until it is interrupted', async () => {
    await startCluster();
    expect(
      await cli.run(['-w', 'owner', 'node', 'ls', '--watch', '-o', 'name'], { endAfter: /n10\n/ }),
    ).toMatchObject({
      code: 130,
      out: 'n1\nn2\nn10\n',
    });
  });
});

test('cluster status --watch shows the cluster again when it changes, until it is interrupted', async () => {
  let calls = 0;
  await startCluster(() => (++calls === 1 ? ['n1'] : ['n1', 'n22']));
  const { code, out } = await cli.run(['-w', 'owner', 'status', '--watch'], { endAfter: /^n22 /m });
  expect(code).toBe(130);
  expect(out.match(/^NAME +STATUS/gm)).toHaveLength(2);
  expect(out).toMatch(/^n1 [^]*^n1 [^]*^n22 /m);
});
