import { expect, test } from '@jest/globals';
import { joinSchema } from './join-schema.ts';

const machine = { identity: `tpm-ek:${'a'.repeat(64)}`, name: 'a' };
const gpu = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };

test('an inventory entry may have taints, whose value may be missing', () => {
  const taints = [gpu, { key: 'spot', effect: 'NoExecute' }];
  const { inventory } = joinSchema.parse({ inventory: [{ ...machine, taints }] });
  expect(inventory[0]?.taints).toEqual([gpu, { key: 'spot', value: '', effect: 'NoExecute' }]);
});

test('an inventory entry without taints stays readable for older releases', () => {
  const { inventory } = joinSchema.parse({ inventory: [machine] });
  expect(inventory[0]).not.toHaveProperty('taints');
});

test.each([
  { name: 'a taint of Kubernetes', taints: [{ ...gpu, key: 'node.kubernetes.io/x' }], at: [0, 'key'] },
  { name: 'an invalid key', taints: [{ ...gpu, key: 'a b' }], at: [0, 'key'] },
  { name: 'an invalid value', taints: [{ ...gpu, value: 'a b' }], at: [0, 'value'] },
  { name: 'an unknown effect', taints: [{ ...gpu, effect: 'NoStart' }], at: [0, 'effect'] },
  { name: 'the same taint twice', taints: [gpu, { ...gpu, value: 'cpu' }], at: [1] },
  { name: 'an unknown member', taints: [{ ...gpu, since: 1 }], at: [0] },
])('an inventory entry refuses $name', ({ taints, at }) => {
  const result = joinSchema.safeParse({ inventory: [{ ...machine, taints }] });
  expect(result.error?.issues.map(({ path }) => path)).toEqual([['inventory', 0, 'taints', ...at]]);
});
