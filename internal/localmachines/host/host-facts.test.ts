import { expect, test } from '@jest/globals';
import { compareHostFacts } from './host-facts.ts';

test('compareHostFacts() names what came and what went, and is silent when all is as before', () => {
  const before = { links: ['lo UP', 'eth0 UP'], mounts: ['/ ext4'] };
  expect(compareHostFacts(before, { ...before })).toEqual([]);
  const after = { links: ['lo UP', 'clu1 UP'], mounts: ['/ ext4'], processes: ['1 swtpm'] };
  expect(compareHostFacts(before, after)).toEqual([
    '+ links: clu1 UP',
    '- links: eth0 UP',
    '+ processes: 1 swtpm',
  ]);
});
