import { describe, expect, test } from '@jest/globals';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { reportedComponents } from './fake-components.ts';
import { FastForwardClock } from '../../cluster/curator/fake-fast-forward-clock.ts';
import { runSetRole } from '../index.ts';

const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 1 };
const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];

const NODE_KEY = pubKeyDerOf(generateKeyPem());

type Parts = ReturnType<typeof reportedComponents>;

/**
 * Two control planes on record and the reported components of n2. `votersOf` returns the number of etcd
 * voters for each request.
 */
async function createFollowing(
  votersOf: (asked: number) => number,
  partsOf: (asked: number) => Parts = () => reportedComponents(),
  roles: readonly NodeRole[] = CONTROL,
) {
  const nodes = ['n1', 'n2'].map((name) => ({
    nodeId: name === 'n1' ? 'node-n1' : nodeIdOf(NODE_KEY),
    publicKey: NODE_KEY,
    name,
    state: NodeState.UP,
    health: NodeHealth.HEALTHY,
    roles: name === 'n1' ? CONTROL : [...roles],
    status: { controlPlane: reportedComponents() },
  }));
  const [, second] = nodes;
  if (second === undefined) throw new Error('there are two');
  let asked = 0;
  let changes = 0;
  const harness = await createCuratorHarness({
    getNode: async () => ({ node: second }),
    listNodes: async () => {
      second.status = { controlPlane: partsOf(asked) };
      return { nodes };
    },
    setNodeRoles: async (request) => {
      second.roles = [...request.roles];
      changes++;
      return {};
    },
    getClusterInfo: async () => ({
      directory: [],
      etcd: {
        hasLeader: true,
        members: Array.from({ length: votersOf(asked++) }, () => ({ isLearner: false })),
      },
    }),
  });
  const owner = { ...harness.owner, ports: { ...harness.owner.ports, clock: new FastForwardClock() } };
  return { ...harness, owner, asked: () => asked, changes: () => changes };
}

const again = { roles: ['control-plane'], dryRun: false, yes: true, drain } as const;

describe('cluster node set-role after an interrupted run', () => {
  test('waits until the node matches the roles on record', async () => {
    await using harness = await createFollowing((asked) => (asked < 5 ? 1 : 2));
    await runSetRole(harness.owner, 'n2', again);
    expect([harness.asked(), harness.changes()]).toEqual([6, 0]);
    expect(harness.owner.host.answered).toMatchObject({ plan: { isNothing: true } });
  });

  test('reports what is missing when the node does not change', async () => {
    await using harness = await createFollowing(() => 1);
    await expect(runSetRole(harness.owner, 'n2', again)).rejects.toMatchObject({
      code: 'nodes-role-change-timeout',
      retryable: true,
      message: expect.stringContaining('the state etcd has 1 voter, expected 2 voters'),
    });
  });

  test('changes nothing with --dry-run', async () => {
    await using harness = await createFollowing(() => 1);
    await runSetRole(harness.owner, 'n2', { ...again, dryRun: true });
    expect(harness.asked()).toBe(1);
  });
});

describe('cluster node set-role and the reported status of the node', () => {
  const drainless = { dryRun: false, yes: true, drain } as const;
  const control = { ...drainless, roles: ['control-plane'] } as const;

  test('waits after a promotion until all components are ready, and shows which component is not, since when and why', async () => {
    const parts = (asked: number): Parts =>
      asked < 4 ? [] : asked < 8 ? reportedComponents('connection refused') : reportedComponents();
    await using harness = await createFollowing((asked) => (asked === 0 ? 1 : 2), parts, []);
    await runSetRole(harness.owner, 'n2', control);
    expect([harness.asked(), harness.changes()]).toEqual([8, 1]);
    const told = harness.owner.host.updates;
    expect(told.at(0)).toMatch(
      /^kube-apiserver of n2 is not ready, for .*: its agent has not reported it yet/,
    );
    expect(told.at(-1)).toMatch(/^kube-apiserver of n2 is not ready, for [1-9].*: connection refused$/);
  });

  test('reports a component that does not start, and the reason; a second run only waits', async () => {
    await using harness = await createFollowing(
      () => 2,
      () => reportedComponents('etcd failed'),
    );
    await expect(runSetRole(harness.owner, 'n2', control)).rejects.toMatchObject({
      code: 'nodes-role-change-timeout',
      message: expect.stringMatching(/kube-apiserver of n2 is not ready, for .*: etcd failed/),
    });
    expect(harness.changes()).toBe(0);
  });

  test('waits after a demotion until the node has stopped its control plane', async () => {
    await using harness = await createFollowing(
      (asked) => (asked === 0 ? 2 : 1),
      (asked) => (asked < 6 ? reportedComponents() : []),
      [...CONTROL, NodeRole.KUBERNETES_WORKER],
    );
    await runSetRole(harness.owner, 'n2', { ...drainless, roles: ['worker'] });
    expect([harness.asked(), harness.changes()]).toEqual([6, 1]);
  });
});

describe('cluster node set-role with a loss', () => {
  const both = [...CONTROL, NodeRole.KUBERNETES_WORKER];
  const toWorker = { roles: ['worker'], dryRun: false, yes: false, drain } as const;
  const createLosing = () =>
    createFollowing(
      (asked) => (asked === 0 ? 2 : 1),
      () => [],
      both,
    );

  test('is refused without a role, before any call', async () => {
    await using harness = await createLosing();
    await expect(
      runSetRole(harness.owner, 'n2', { ...toWorker, yes: true, roles: [] }),
    ).rejects.toMatchObject({
      code: 'app-usage',
      fix: expect.stringContaining('--worker'),
    });
    expect([harness.asked(), harness.changes()]).toEqual([0, 0]);
  });

  test('changes nothing unless the operator confirms the listed loss', async () => {
    await using harness = await createLosing();
    await expect(runSetRole(harness.owner, 'n2', toWorker)).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      message: expect.stringContaining('role control-plane'),
    });
    expect(harness.changes()).toBe(0);
  });

  test('shows the loss with --dry-run', async () => {
    await using harness = await createLosing();
    await runSetRole(harness.owner, 'n2', { ...toWorker, dryRun: true });
    expect(harness.owner.host.answered).toMatchObject({ losses: [expect.stringContaining('control-plane')] });
    expect(harness.changes()).toBe(0);
  });

  test('needs no confirmation if a node only gains roles', async () => {
    await using harness = await createFollowing((asked) => (asked === 0 ? 1 : 2), undefined, []);
    await runSetRole(harness.owner, 'n2', { ...toWorker, roles: ['control-plane'] });
    expect(harness.changes()).toBe(1);
  });
});
