import { describe, expect, test } from '@jest/globals';
import { EventValue, follow } from '../../internal/event/index.ts';
import { FakeClock, FakeCommands, settle, superviseForTest } from '../../internal/testing/index.ts';
import { NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CuratorConnection, Curators } from '../curatorclient/index.ts';
import { createFakeRoleValues } from './fake-role-values.ts';
import { membership } from './fake-node.ts';
import { nodeLabelsWorker } from './node-labels-worker.ts';

type Labels = Readonly<Record<string, string>>;
interface TaintLike {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
  readonly timeAdded?: string;
}

/** A Node object: its labels, and the keys of the labels that field manager `cluster` has applied. */
interface FakeObject {
  uid: string;
  labels: Labels;
  declared: readonly string[];
  taints?: readonly TaintLike[];
  annotations?: Readonly<Record<string, string | null>>;
  version?: number;
}

/** Kubernetes with these Node objects, which applies labels as server-side apply does, and a curator that streams the records. */
function createCluster(objects: Readonly<Record<string, Labels>>) {
  const values = createFakeRoleValues();
  const nodes = new Map<string, FakeObject>(
    Object.entries(objects).map(([name, labels]) => [name, { uid: `uid-${name}`, labels, declared: [] }]),
  );
  let failures = 0;
  const calls = { lists: 0, patches: 0, onList: (): void => undefined };
  const patched = (argv: readonly string[]) => {
    const node = nodes.get(argv[argv.indexOf('node') + 1] ?? '');
    const { metadata, spec } = JSON.parse(argv.at(-1) ?? '') as {
      metadata: { resourceVersion: string; annotations: Record<string, string | null> };
      spec: { taints: readonly TaintLike[] | null };
    };
    if (node === undefined)
      return { exitCode: 1, output: 'Error from server (NotFound): nodes "n1" not found' };
    if (String(node.version ?? 1) !== metadata.resourceVersion)
      return { exitCode: 1, output: 'the object has been modified; please apply your changes' };
    calls.patches++;
    const annotations = Object.entries({ ...node.annotations, ...metadata.annotations });
    node.annotations = Object.fromEntries(annotations.filter(([, value]) => value !== null));
    node.taints = spec.taints ?? [];
    node.version = (node.version ?? 1) + 1;
    return '';
  };
  const commands = new FakeCommands((argv, { input = '' }) => {
    if (failures > 0 && failures-- > 0)
      return { exitCode: 1, output: 'The connection to the server was refused' };
    if (argv.some((word) => word.includes('.spec.taints'))) {
      calls.lists++;
      const lines = [...nodes].map(([name, { version = 1, annotations = {}, taints = [] }]) => {
        const list = taints.length === 0 ? '' : JSON.stringify(taints);
        return `${name}\t${version}\t${JSON.stringify(annotations)}\t${list}\n`;
      });
      calls.onList();
      return lines.join('');
    }
    if (argv.includes('patch')) return patched(argv);
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
  const taintsOnRecord = new Map<string, readonly TaintLike[]>();
  const client = {
    async *watchNodes(_: object, { signal }: { signal: AbortSignal }) {
      for await (const all of follow(records, signal))
        yield {
          ...{ relist: true, caughtUp: true, deletedNodeIds: [] },
          nodes: Object.entries(all).map(([name, labels]) => ({
            ...{ nodeId: `node-${name}`, name, labels },
            taints: (taintsOnRecord.get(name) ?? []).map((taint) => ({ value: '', ...taint })),
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
    calls,
    setTaints: (name: string, taints: readonly TaintLike[]): void => {
      taintsOnRecord.set(name, taints);
      records.set({ ...Object.fromEntries([...nodes].map(([node]) => [node, {}])), [name]: {} });
    },
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
  expect(tree.at('root.apply')).toMatchObject({
    state: 'healthy',
    note: 'changes of the records',
    restarts: 0,
  });
});

test('a label on record replaces the value that somebody else has set for the same key', async () => {
  const cluster = createCluster({ n1: { zone: 'theirs' } });
  await using _tree = await cluster.start();
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  expect(labelsOf(cluster, 'n1')).toEqual({ zone: 'x' });
});

test('labels with a prefix of Kubernetes are not copied from a record, except labels with the prefix node-restriction.kubernetes.io', async () => {
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

test('the worker retries while the API server does not answer', async () => {
  const cluster = createCluster({ n1: {} });
  await using tree = await cluster.start();
  cluster.fail(3);
  cluster.records.set({ n1: { zone: 'x' } });
  for (let step = 0; step < 10; step++) await tree.clock.advance(60_000);
  expect(labelsOf(cluster, 'n1')).toEqual({ zone: 'x' });
});

test('a node without a control plane copies nothing', async () => {
  const cluster = createCluster({ n1: {} });
  await using tree = await cluster.start();
  cluster.values.kubernetesStatus.set({ version: 'v1', controlPlane: false });
  cluster.records.set({ n1: { zone: 'x' } });
  await settle();
  expect(tree.at('root').note).toBe('idle: no Kubernetes control plane on this node');
});

describe('taints on record', () => {
  const gpu = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };
  const theirs = { key: 'example.org/maintenance', effect: 'NoExecute', timeAdded: '2026-01-01T00:00:00Z' };
  const control = { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' };
  const taintsOf = (cluster: ReturnType<typeof createCluster>) => cluster.nodes.get('n1')?.taints;

  /** A cluster of one node that has taints of others, and runs the worker. */
  async function createTainted(taints: readonly TaintLike[] = [theirs, control]) {
    const cluster = createCluster({ n1: {} });
    Object.assign(cluster.nodes.get('n1') ?? {}, { taints, annotations: { other: 'x' } });
    const tree = await cluster.start();
    return { ...cluster, tree, [Symbol.asyncDispose]: () => tree[Symbol.asyncDispose]() };
  }

  test('reach the node; taints that others have set stay, even when the taints on record are removed again', async () => {
    await using cluster = await createTainted();
    cluster.setTaints('n1', [gpu, { key: 'a', effect: 'NoExecute' }]);
    await settle();
    expect(taintsOf(cluster)).toEqual([theirs, control, { key: 'a', effect: 'NoExecute' }, gpu]);
    cluster.setTaints('n1', [gpu]);
    await settle();
    expect(taintsOf(cluster)).toEqual([theirs, control, gpu]);
    cluster.setTaints('n1', []);
    await settle();
    expect(taintsOf(cluster)).toEqual([theirs, control]);
    expect(cluster.nodes.get('n1')?.annotations).toEqual({ other: 'x' });
  });

  test('replace the value of the same taint, and keep taints with which the kubelet registered', async () => {
    await using cluster = await createTainted([{ ...gpu, value: 'old' }, theirs]);
    cluster.setTaints('n1', [gpu]);
    await settle();
    expect(taintsOf(cluster)).toEqual([theirs, gpu]);
    Object.assign(cluster.nodes.get('n1') ?? {}, { taints: [gpu], annotations: {} });
    cluster.setTaints('n1', [gpu, { key: 'a', effect: 'NoExecute' }]);
    await settle();
    cluster.setTaints('n1', []);
    await settle();
    expect(taintsOf(cluster)).toEqual([]);
  });

  test('are written again, together with the changes of others, if the node changed meanwhile', async () => {
    await using cluster = await createTainted([theirs]);
    let changes = 2;
    cluster.calls.onList = () => {
      const node = cluster.nodes.get('n1');
      if (node === undefined || changes-- <= 0) return;
      Object.assign(node, { version: (node.version ?? 1) + 1, taints: [theirs, control] });
    };
    cluster.setTaints('n1', [gpu]);
    await settle();
    expect(taintsOf(cluster)).toEqual([theirs, control, gpu]);
    expect(cluster.tree.at('root.taints')).toMatchObject({ state: 'healthy', restarts: 0 });
  });

  test('of Kubernetes are not copied, and a broken annotation removes nothing', async () => {
    await using cluster = await createTainted();
    Object.assign(cluster.nodes.get('n1') ?? {}, { annotations: { 'cluster/taints': '{"a":1}' } });
    cluster.setTaints('n1', [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }]);
    await settle();
    expect([taintsOf(cluster), cluster.calls.patches]).toEqual([[theirs, control], 0]);
  });

  test('that are on the node already cause no call', async () => {
    await using cluster = await createTainted();
    cluster.setTaints('n1', [gpu]);
    await settle();
    await cluster.tree.clock.advance(600_000);
    expect([cluster.calls.patches, cluster.calls.lists]).toEqual([1, 2]);
  });
});
