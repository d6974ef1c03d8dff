import { expect, test } from '@jest/globals';
import { isLabelKey, isLabelValue, isReservedLabel } from './node-labels.ts';

test.each([
  ['zone', true],
  ['example.org/zone', true],
  ['a/b/c', false],
  ['', false],
  ['example.org/', false],
  ['Example.org/zone', false],
  ['example..org/zone', false],
  ['-zone', false],
  [`${'a'.repeat(253)}/zone`, true],
  [`${'a'.repeat(254)}/zone`, false],
  ['x'.repeat(63), true],
  ['x'.repeat(64), false],
])('isLabelKey(%j) is %j', (key, want) => {
  expect(isLabelKey(key)).toBe(want);
});

test.each([
  ['', true],
  ['rack-1', true],
  ['a b', false],
  ['x'.repeat(63), true],
  ['x'.repeat(64), false],
])('isLabelValue(%j) is %j', (value, want) => {
  expect(isLabelValue(value)).toBe(want);
});

test.each([
  ['kubernetes.io/hostname', true],
  ['node-role.kubernetes.io/control-plane', true],
  ['x.k8s.io/a', true],
  ['node-restriction.kubernetes.io/tenant', false],
  ['mykubernetes.io/a', false],
  ['zone', false],
])('isReservedLabel(%j) is %j', (key, want) => {
  expect(isReservedLabel(key)).toBe(want);
});
