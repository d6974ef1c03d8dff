import { expect, test } from '@jest/globals';
import { formatTaint, isReservedTaint, MAX_TAINTS, whyTaintsInvalid } from './node-taints.ts';

const taint = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' } as const;

test.each([
  { name: 'an empty list', given: [], want: undefined },
  { name: 'one taint', given: [taint], want: undefined },
  { name: 'a taint without a value', given: [{ ...taint, value: '' }], want: undefined },
  { name: 'one key with two effects', given: [taint, { ...taint, effect: 'NoExecute' }], want: undefined },
  { name: 'a key with a space', given: [{ ...taint, key: 'a b' }], want: 'is not a taint key' },
  { name: 'an empty key', given: [{ ...taint, key: '' }], want: 'is not a taint key' },
  {
    name: 'a key that belongs to Kubernetes',
    given: [{ ...taint, key: 'node.kubernetes.io/not-ready' }],
    want: 'is reserved',
  },
  { name: 'a value with a space', given: [{ ...taint, value: 'x y' }], want: 'is not a taint value' },
  { name: 'an unknown effect', given: [{ ...taint, effect: 'NoStart' }], want: 'is not an effect' },
  { name: 'the same taint twice', given: [taint, { ...taint, value: 'b' }], want: 'is set twice' },
  {
    name: 'too many taints',
    given: Array.from({ length: MAX_TAINTS + 1 }, (_, index) => ({ ...taint, key: `k${index}` })),
    want: 'at most',
  },
])('whyTaintsInvalid() returns "$want" for $name', ({ given, want }) => {
  const why = whyTaintsInvalid(given);
  if (want === undefined) expect(why).toBeUndefined();
  else expect(why).toContain(want);
});

test.each([
  ['node-role.kubernetes.io/control-plane', true],
  ['kubernetes.io/x', true],
  ['x.k8s.io/a', true],
  ['node-restriction.kubernetes.io/tenant', true],
  ['mykubernetes.io/a', false],
  ['node.cilium.io/agent-not-ready', false],
  ['dedicated', false],
])('isReservedTaint(%j) is %j', (key, want) => {
  expect(isReservedTaint(key)).toBe(want);
});

test('formatTaint() writes taints as kubectl does', () => {
  expect([formatTaint(taint), formatTaint({ ...taint, value: '' })]).toEqual([
    'dedicated=gpu:NoSchedule',
    'dedicated:NoSchedule',
  ]);
});
