import { describe, expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, FakeCommands, settle, superviseForTest } from '../../internal/testing/index.ts';
import { spreadDnsOnce } from './dns-spread.ts';

const TAINT = 'node-role.kubernetes.io/control-plane';
const READY = { conditions: [{ type: 'Ready', status: 'True' }] };
const [ONE, TWO] = [new Map([['n1', 1]]), new Map(['n1', 'n2'].map((name) => [name, 1]))];
const ready = (...taints: readonly string[]) => ({
  spec: { taints: taints.map((key) => ({ key, effect: 'NoSchedule' })) },
  status: READY,
});
const notReady = { spec: {}, status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } };

/** The rule that kubeadm writes, with these keys. */
const rule = (matchLabelKeys?: readonly string[]) => ({
  weight: 100,
  podAffinityTerm: {
    labelSelector: { matchExpressions: [{ key: 'k8s-app', operator: 'In', values: ['kube-dns'] }] },
    topologyKey: 'kubernetes.io/hostname',
    ...(matchLabelKeys && { matchLabelKeys }),
  },
});

/** A cluster with the deployment of kubeadm and these Node objects. */
function createCluster(
  objects: readonly object[],
  over: { constraints?: object[]; replicas?: number; keys?: string[] } = {},
) {
  const items = [...objects];
  const patches: { metadata: object; spec: { template: { spec: object } } }[] = [];
  let exists = true;
  const deployment = () => ({
    metadata: { resourceVersion: '7' },
    spec: {
      replicas: over.replicas ?? 2,
      template: {
        spec: {
          tolerations: [
            { key: 'CriticalAddonsOnly', operator: 'Exists' },
            { key: TAINT, effect: 'NoSchedule' },
          ],
          affinity: {
            podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [rule(over.keys)] },
          },
          ...(over.constraints && { topologySpreadConstraints: over.constraints }),
        },
      },
    },
  });
  const commands = new FakeCommands((argv) => {
    if (argv.includes('nodes')) return JSON.stringify({ items });
    if (argv.includes('get')) return exists ? JSON.stringify(deployment()) : '';
    patches.push(JSON.parse(argv.at(-1) ?? '') as (typeof patches)[number]);
    return '';
  });
  const nodes = new EventValue<ReadonlyMap<string, unknown>>();
  const start = () => {
    const clock = new FakeClock();
    return superviseForTest((scope) => spreadDnsOnce({ clock, commands }, { nodes }, scope), { clock });
  };
  return { commands, nodes, items, patches, start, remove: () => void (exists = false) };
}

describe('spreadDnsOnce()', () => {
  test('restarts CoreDNS once when a second node that can run it is ready, spread over the nodes', async () => {
    const cluster = createCluster([ready(TAINT), notReady]);
    await using tree = cluster.start();
    cluster.nodes.set(ONE);
    await settle();
    await tree.clock.advance(3_600_000);
    expect(cluster.commands.runs).toEqual([]); // a cluster of one node asks nothing
    cluster.nodes.set(TWO);
    await settle();
    expect([cluster.commands.runs.length, cluster.patches.length]).toEqual([2, 0]);
    cluster.items.splice(1, 1, ready(TAINT));
    await tree.clock.advance(15_000);
    expect(cluster.patches).toHaveLength(1);
    expect(cluster.patches[0]).toMatchObject({
      metadata: { resourceVersion: '7' },
      spec: {
        template: {
          spec: {
            affinity: {
              podAntiAffinity: {
                preferredDuringSchedulingIgnoredDuringExecution: [rule(['pod-template-hash'])],
              },
            },
          },
        },
      },
    });
    expect(tree.at('root').state).toBe('done');
    await tree.clock.advance(3_600_000);
    expect(cluster.patches).toHaveLength(1);
  });

  test.each([
    { name: 'has the rule already', over: { keys: ['pod-template-hash'] } },
    { name: 'has constraints of its operator', over: { constraints: [{}] } },
    { name: 'has one replica', over: { replicas: 1 } },
  ])('changes nothing if the deployment $name', async ({ over }) => {
    const cluster = createCluster([ready(), ready()], over);
    await using tree = cluster.start();
    cluster.nodes.set(TWO);
    await settle();
    expect([cluster.patches.length, tree.at('root').state]).toEqual([0, 'done']);
  });

  test('changes nothing if the operators run another DNS server', async () => {
    const cluster = createCluster([ready(), ready()]);
    cluster.remove();
    await using tree = cluster.start();
    cluster.nodes.set(TWO);
    await settle();
    expect([cluster.patches.length, tree.at('root').state]).toEqual([0, 'done']);
  });

  test.each([
    { name: 'has a taint that CoreDNS does not tolerate', other: ready('dedicated') },
    { name: 'is cordoned', other: { spec: { unschedulable: true }, status: READY } },
  ])('waits, less and less often, while the second node $name', async ({ other }) => {
    const cluster = createCluster([ready(TAINT), other]);
    await using tree = cluster.start();
    cluster.nodes.set(TWO);
    await settle();
    for (let minute = 0; minute < 120; minute++) await tree.clock.advance(60_000);
    const asked = cluster.commands.runs.length / 2;
    expect(cluster.patches).toEqual([]);
    expect(asked).toBeGreaterThan(8);
    expect(asked).toBeLessThan(25);
  });
});
