import { describe, expect, test } from '@jest/globals';
import { checkRoleChange, leaveGuard, quorumOf, type GuardedNode } from './role-change.ts';
import type { Role } from './role.ts';

const CONTROL: readonly Role[] = ['ConsensusMember', 'KubernetesController'];

function controlPlane(name: string, over: Partial<GuardedNode> = {}): GuardedNode {
  return {
    nodeId: name,
    name,
    roles: CONTROL,
    isAlive: true,
    apiServer: { isReady: true, reason: '' },
    ...over,
  };
}

function clusterOf(controlPlanes: readonly GuardedNode[], etcd = {}) {
  return {
    controlPlanes,
    etcd: { hasLeader: true, voters: controlPlanes.length, learners: 0, ...etcd },
  };
}

describe('quorumOf()', () => {
  test.each([
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
    [7, 4],
  ])('quorumOf() of %i voters is %i', (voters, want) => {
    expect(quorumOf(voters)).toBe(want);
  });
});

describe('checkRoleChange()', () => {
  const [a, b, c] = [controlPlane('a'), controlPlane('b'), controlPlane('c')];
  const lost = controlPlane('c', { isAlive: false });
  const worker = controlPlane('w', { roles: ['KubernetesWorker'], apiServer: undefined });

  test.each([
    { name: 'removing one of three control planes', node: a, roles: [], all: clusterOf([a, b, c]), want: [] },
    {
      name: 'removing the last control plane',
      node: a,
      roles: [],
      all: clusterOf([a]),
      want: ['last-control-plane'],
    },
    {
      name: 'removing the only ready API server',
      node: a,
      roles: [],
      all: clusterOf([a, controlPlane('b', { apiServer: { isReady: false, reason: 'starting' } })]),
      want: ['last-api-server'],
    },
    {
      name: 'removing only the API server, while etcd stays',
      node: a,
      roles: ['ConsensusMember'],
      all: clusterOf([a, controlPlane('b', { apiServer: undefined })]),
      want: ['last-api-server'],
    },
    {
      name: 'removing a healthy voter beside a lost voter',
      node: a,
      roles: [],
      all: clusterOf([a, b, lost]),
      want: ['quorum-loss'],
    },
    { name: 'removing the lost voter', node: lost, roles: [], all: clusterOf([a, b, lost]), want: [] },
    {
      name: 'removing a lost node that a recovery has removed from etcd',
      node: lost,
      roles: [],
      all: clusterOf([a, lost], { voters: 1 }),
      want: [],
    },
    {
      name: 'removing any voter without a leader',
      node: a,
      roles: [],
      all: clusterOf([a, b, c], { hasLeader: false }),
      want: ['no-leader'],
    },
    {
      name: 'a promotion while etcd has a learner',
      node: worker,
      roles: CONTROL,
      all: clusterOf([a, b, c], { learners: 1 }),
      want: ['learner-present'],
    },
    {
      name: 'a promotion without a quorum',
      node: worker,
      roles: CONTROL,
      all: clusterOf([a, lost, { ...lost, nodeId: 'd' }]),
      want: ['no-quorum'],
    },
    {
      name: 'removing a worker',
      node: worker,
      roles: [],
      all: clusterOf([a], { hasLeader: false }),
      want: [],
    },
  ] as const)(
    'for $name, checkRoleChange() returns the refusing guards $want',
    ({ node, roles, all, want }) => {
      expect(checkRoleChange({ node, roles }, all).refusals.map(({ guard }) => guard)).toEqual(want);
    },
  );

  test('counts voters, quorum and healthy control planes before and after', () => {
    expect(checkRoleChange({ node: lost, roles: [] }, clusterOf([a, b, lost]))).toMatchObject({
      voters: { before: 3, after: 2 },
      quorum: { before: 2, after: 2 },
      healthy: { before: 2, after: 2 },
    });
  });
});

describe('leaveGuard()', () => {
  test.each([
    { controlPlanes: 0, voters: 0, healthy: 0, want: 'last-control-plane' },
    { controlPlanes: 2, voters: 2, healthy: 1, want: 'quorum-loss' },
    { controlPlanes: 2, voters: 2, healthy: 2, want: undefined },
    { controlPlanes: 4, voters: 4, healthy: 3, want: undefined },
  ])(
    'returns the guard $want if $healthy of $voters remaining voters are healthy',
    ({ want, ...remaining }) => {
      expect(leaveGuard(remaining)).toBe(want);
    },
  );
});
