import { describe, expect, test } from '@jest/globals';
import { checkNodeMove, NODE_STATES, type NodeState } from './node-state.ts';
import { firstNodeRoles, isControlPlane, parseRoles, roleNames } from './role.ts';

describe('parseRoles()', () => {
  test.each([
    { name: 'no roles', given: [], want: [] },
    {
      name: 'roles in any order, with duplicates',
      given: ['KubernetesWorker', 'ConsensusMember', 'KubernetesWorker'],
      want: ['ConsensusMember', 'KubernetesWorker'],
    },
    {
      name: 'all control-plane roles',
      given: ['KubernetesController', 'ConsensusMember'],
      want: ['ConsensusMember', 'KubernetesController'],
    },
  ])('parseRoles() accepts $name', ({ given, want }) => {
    expect(parseRoles(given)).toEqual(want);
  });

  test.each([
    { name: 'a controller without consensus', given: ['KubernetesController'], code: 'role-conflict' },
    { name: 'an unknown name', given: ['ConsensusMember', 'Gardener'], code: 'role-unknown' },
    { name: 'a role name in another spelling', given: ['consensusmember'], code: 'role-unknown' },
  ])('parseRoles() refuses $name', ({ given, code }) => {
    expect(() => parseRoles(given)).toThrow(expect.objectContaining({ code }));
  });
});

test('firstNodeRoles() adds the worker role only for a single node', () => {
  expect(firstNodeRoles({ singleNode: false })).toEqual(['ConsensusMember', 'KubernetesController']);
  expect(firstNodeRoles({ singleNode: true })).toContain('KubernetesWorker');
  expect(isControlPlane(firstNodeRoles({ singleNode: false }))).toBe(true);
});

test('roleNames() shows both control-plane roles as one name', () => {
  expect(roleNames(['ConsensusMember', 'KubernetesController', 'KubernetesWorker'])).toEqual([
    'control-plane',
    'worker',
  ]);
  expect(roleNames(['consensus', 'controller'])).toEqual(['control-plane']);
  expect(roleNames(['worker', 'unknown'])).toEqual(['worker', 'unknown']);
});

describe('checkNodeMove()', () => {
  const legal = new Set([
    'NEW>STANDBY',
    'STANDBY>UP',
    'NEW>DECOMMISSIONED',
    'STANDBY>DECOMMISSIONED',
    'UP>DECOMMISSIONED',
  ]);
  const pairs = NODE_STATES.flatMap((from) => NODE_STATES.map((to) => ({ from, to })));
  test.each(pairs)(
    'checkNodeMove() accepts or refuses the change from $from to $to as the list of transitions says',
    ({ from, to }: { from: NodeState; to: NodeState }) => {
      if (from === to) expect(checkNodeMove(from, to)).toBe(false);
      else if (legal.has(`${from}>${to}`)) expect(checkNodeMove(from, to)).toBe(true);
      else
        expect(() => checkNodeMove(from, to)).toThrow(expect.objectContaining({ code: 'role-state-move' }));
    },
  );
});
