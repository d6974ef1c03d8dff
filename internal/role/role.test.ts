import { describe, expect, test } from '@jest/globals';
import { checkNodeMove, NODE_STATES, type NodeState } from './node-state.ts';
import { firstNodeRoles, isControlPlane, parseRoles, roleNames } from './role.ts';

describe('parseRoles()', () => {
  test.each([
    { name: 'none', given: [], want: [] },
    {
      name: 'any order, twice',
      given: ['KubernetesWorker', 'ConsensusMember', 'KubernetesWorker'],
      want: ['ConsensusMember', 'KubernetesWorker'],
    },
    {
      name: 'a whole control plane',
      given: ['KubernetesController', 'ConsensusMember'],
      want: ['ConsensusMember', 'KubernetesController'],
    },
  ])('takes $name', ({ given, want }) => {
    expect(parseRoles(given)).toEqual(want);
  });

  test.each([
    { name: 'a controller without consensus', given: ['KubernetesController'], code: 'role-conflict' },
    { name: 'an unknown name', given: ['ConsensusMember', 'Gardener'], code: 'role-unknown' },
    { name: 'another spelling', given: ['consensusmember'], code: 'role-unknown' },
  ])('refuses $name', ({ given, code }) => {
    expect(() => parseRoles(given)).toThrow(expect.objectContaining({ code }));
  });
});

test('firstNodeRoles() adds the worker role only for a single node', () => {
  expect(firstNodeRoles({ singleNode: false })).toEqual(['ConsensusMember', 'KubernetesController']);
  expect(firstNodeRoles({ singleNode: true })).toContain('KubernetesWorker');
  expect(isControlPlane(firstNodeRoles({ singleNode: false }))).toBe(true);
});

test('roleNames() calls both halves of a control plane by one name', () => {
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
  test.each(pairs)('from $from to $to', ({ from, to }: { from: NodeState; to: NodeState }) => {
    if (from === to) expect(checkNodeMove(from, to)).toBe(false);
    else if (legal.has(`${from}>${to}`)) expect(checkNodeMove(from, to)).toBe(true);
    else expect(() => checkNodeMove(from, to)).toThrow(expect.objectContaining({ code: 'role-state-move' }));
  });
});
