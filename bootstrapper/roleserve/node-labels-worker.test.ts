import { expect, test } from '@jest/globals';
import { EventValue, follow } from '../../internal/event/index.ts';
import { FakeClock, FakeCommands, settle, superviseForTest } from '../../internal/testing/index.ts';
import { NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { createFakeRoleValues } from './fake-role-values.ts';
import { membership } from './fake-node.ts';
import { nodeLabelsWorker } from './node-labels-worker.ts';

type Labels = Readonly<Record<string, string>>;

/** A Node object: its labels, and the keys of those that were applied by field manager `cluster`. */
interface FakeObject {
  uid: string;
  labels: Labels;
  declared: readonly string[];
}

/** Kubernetes with these Node objects, which applies labels as server-side apply does, and a curator that streams the records. */
function createCluster(objects: Readonly<Record<string, Labels>>) {
  const values = createFakeRoleValues();
  const nodes = new Map<string, FakeObject>(
    Object.entries(objects).map(([name, labels]) => [name, { uid: `uid-${name}`, labels, declared: [] }]),
  );
  let failures = 0;
  const commands = new FakeCommands((argv, { input = '' }) => {
    if (failures > 0 && failures-- > 0)
      return { exitCode: 1, output: 'The connection to the server was refused' };
    if (argv.includes('get'))
      return [...nodes]
        .map(([name, { uid, labels, declared }]) => {
          const fields = Object.fromEntries(declared.map((key) => [`f:${key}`, {}]));
          const managed =
            declared.length === 0 ? '' : JSON.stringify({ 'f:metadata': { 'f:labels': fields } });
          return `${name}\t${uid}\t${JSON.stringify(labels)}\t${managed}\n`;
        })
        .join('');
    const { metadata } = JSON.parse(input.toString()) as {
      metadata: { name: string; uid: string; labels: Labels };
    };
    const node = nodes.get(metadata.name);
    if (node?.uid !== metadata.uid) return { exitCode: 1, output: 'Conflict: uid mismatch' };
    const kept = Object.entries(node.labels).filter(([key]) => !node.declared.includes(key));
    node.labels = { ...Object.fromEntries(kept), ...metadata.labels };
    node.declared = Object.keys(metadata.labels);
    return '';
  });
  const records = new EventValue<Readonly<Record<string, Labels>>>();
  const client = {
    async *watchNodes(_: object, { signal }: { signal: AbortSignal }) {
      for await (const all of follow(records, signal))
        yield {
          ...{ relist: true, caughtUp: true, deletedNodeIds: [] },
          nodes: Object.entries(all).map(([name, labels]) => ({
            ...{ nodeId: `node-${name}`, name, labels },
            state: name === 'standby' ? NodeState.STANDBY : NodeState.UP,
          })),
        };
    },
  } as unknown as CuratorConnection['client'];
  const curators: Curators = {
    use: (work, { signal }) => work({ endpoint: 'curator', client, of: () => ({}) as never }, signal),
  };
  const start = async () => {
    const clock = new FakeClock();
    const tree = superviseForTest(nodeLabelsWorker({ reads: values, curators, clock, commands }), { clock });
    values.clusterMembership.set(membership);
    values.kubernetesStatus.set({ version: 'v1', controlPlane: true });
    await settle();
    return tree;
  };
  const applies = () => commands.runs.filter((argv) => argv.includes('apply')).length;
  return {
    values,
    nodes,
    records,
    commands,
    start,
    applies,
    fail: (times: number) => void (failures = times),
  };
}

const labelsOf = (cluster: ReturnType<typeof createCluster>, name: string) => cluster.nodes.get(name)?.labels;

test('labels on record reach the nodes; labels of others stay, and a removed label disappears', async () => {
  const cluster = createCluster({ n1: { 'kubernetes.io/os': 'linux' }, n2: { team: 'a' } });
  await using tree = await cluster.start();
  cluster.records.set({ n1: { zone: 'x', rack: '1' }, n2: {} });
  await settle();
  expect(labelsOf(cluster, 'n1')).toEqual({ 'kubernetes.io/os': 'linux', zone: 'x', rack: '1' });
  expect([labelsOf(cluster, 'n2'), cluster.applies()]).toEqual([{ team: 'a' }, 1]);
  cluster.records.set({ n1: { zone: 'y' }, n2: {} });
  await settle();
  expect(labelsOf(cluster, 'n1')).toEqual({ 'kubernetes.io/os': 'linux', zone: 'y' });
  expect(tree.at('root.apply')).toMatchObject({ state: 'healthy', note: 'changes of labels', restarts: 0 });
});

test('a label of the same key that somebody else has set gets the value on record', async () => {
  const cluster = createCluster({ n1: { zone: 'theirs' } });
  await using _tree = await cluster.start();
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  expect(labelsOf(cluster, 'n1')).toEqual({ zone: 'x' });
});

test('labels of Kubernetes in a record are not copied; those of node-restriction.kubernetes.io are', async () => {
  const cluster = createCluster({ n1: {}, standby: {} });
  await using _tree = await cluster.start();
  const restricted = { 'node-restriction.kubernetes.io/tenant': 'a' };
  cluster.records.set({
    n1: { 'node-role.kubernetes.io/control-plane': '', ...restricted },
    standby: { a: 'b' },
  });
  await settle();
  expect([labelsOf(cluster, 'n1'), labelsOf(cluster, 'standby')]).toEqual([restricted, {}]);
});

test('a record that did not change causes no call', async () => {
  const cluster = createCluster({ n1: {} });
  await using _tree = await cluster.start();
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  const { length } = cluster.commands.runs;
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  expect(cluster.commands.runs).toHaveLength(length);
});

test('a node that registers later, or registers again, gets its labels', async () => {
  const cluster = createCluster({});
  await using tree = await cluster.start();
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  expect(tree.at('root.apply').note).toBe('kubelet of n1 to register');
  cluster.nodes.set('n1', { uid: 'first', labels: {}, declared: [] });
  await tree.clock.advance(15_000);
  expect(labelsOf(cluster, 'n1')).toEqual({ zone: 'x' });
  cluster.nodes.set('n1', { uid: 'second', labels: {}, declared: [] });
  await tree.clock.advance(600_000);
  expect(labelsOf(cluster, 'n1')).toEqual({ zone: 'x' });
});

test('an API server that does not answer is asked again', async () => {
  const cluster = createCluster({ n1: {} });
  await using tree = await cluster.start();
  cluster.fail(3);
  cluster.records.set({ n1: { zone: 'x' } });
  for (let step = 0; step < 10; step++) await tree.clock.advance(60_000);
  expect(labelsOf(cluster, 'n1')).toEqual({ zone: 'x' });
});

test('a node without a control plane asks nobody', async () => {
  const cluster = createCluster({ n1: {} });
  await using tree = await cluster.start();
  cluster.values.kubernetesStatus.set({ version: 'v1', controlPlane: false });
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  expect(tree.at('root').note).toBe('idle: no Kubernetes control plane on this node');
});
