import { expect, test } from '@jest/globals';
import { joinSchema } from './join-schema.ts';

const machine = { identity: `tpm-ek:${'a'.repeat(64)}`, name: 'a' };
const gpu = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };

test('joinSchema accepts an inventory entry with taints, also a taint without a value', () => {
  const taints = [gpu, { key: 'spot', effect: 'NoExecute' }];
  const { inventory } = joinSchema.parse({ inventory: [{ ...machine, taints }] });
  expect(inventory[0]?.taints).toEqual([gpu, { key: 'spot', value: '', effect: 'NoExecute' }]);
});

test('joinSchema adds no key `taints` to an inventory entry without taints, because older releases would refuse it', () => {
  const { inventory } = joinSchema.parse({ inventory: [machine] });
  expect(inventory[0]).not.toHaveProperty('taints');
});

test.each([
  {
    name: 'a taint that is reserved for Kubernetes',
    taints: [{ ...gpu, key: 'node.kubernetes.io/x' }],
    at: [0, 'key'],
  },
  { name: 'an invalid taint key', taints: [{ ...gpu, key: 'a b' }], at: [0, 'key'] },
  { name: 'an invalid taint value', taints: [{ ...gpu, value: 'a b' }], at: [0, 'value'] },
  { name: 'an unknown taint effect', taints: [{ ...gpu, effect: 'NoStart' }], at: [0, 'effect'] },
  { name: 'the same taint twice', taints: [gpu, { ...gpu, value: 'cpu' }], at: [1] },
  { name: 'an unknown property of a taint', taints: [{ ...gpu, since: 1 }], at: [0] },
])('joinSchema refuses an inventory entry with $name', ({ taints, at }) => {
  const result = joinSchema.safeParse({ inventory: [{ ...machine, taints }] });
  expect(result.error?.issues.map(({ path }) => path)).toEqual([['inventory', 0, 'taints', ...at]]);
});
