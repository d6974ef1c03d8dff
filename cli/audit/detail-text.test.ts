import { expect, test } from '@jest/globals';
import { detailText } from './detail-text.ts';

const cases = [
  {
    name: 'shows each member as name=value',
    given: { from: ['worker'], to: ['worker', 'x'] },
    want: 'from=worker to=worker,x',
  },
  {
    name: 'names roles as commands do',
    given: { roles: ['ConsensusMember', 'KubernetesController', 'KubernetesWorker'], tags: ['a', 'a'] },
    want: 'roles=control-plane,worker tags=a,a',
  },
  {
    name: 'leaves the name of a node as it is, also one like the name of a role',
    given: { nodes: ['controller'] },
    want: 'nodes=controller',
  },
  { name: 'shows a nested member with its path', given: { set: { a: '1' }, remove: [] }, want: 'set.a=1' },
  { name: 'quotes texts with blanks', given: { reason: 'too old', n: 2 }, want: 'reason="too old" n=2' },
  {
    name: 'numbers the objects of a list',
    given: { d: [{ k: 1 }, { k: 2 }] },
    want: 'd[0].k=1 d[1].k=2',
  },
  { name: 'returns <none> for an entry without details', given: {}, want: '<none>' },
  {
    name: 'removes control characters',
    given: { a: 'x\u001b[2J' },
    want: expect.not.stringContaining('\u001b'),
  },
];
test.each(cases)('detailText() $name', ({ given, want }) => {
  expect(detailText(given)).toEqual(want);
});
