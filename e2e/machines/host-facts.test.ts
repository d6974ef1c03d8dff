import { expect, test } from '@jest/globals';
import { compareHostFacts } from './host-facts.ts';

test('compareHostFacts() returns added and removed lines, and nothing when the host is unchanged', () => {
  const before = { links: ['lo UP', 'eth0 UP'], mounts: ['/ ext4'] };
  expect(compareHostFacts(before, { ...before })).toEqual([]);
  const after = { links: ['lo UP', 'clu1 UP'], mounts: ['/ ext4'], processes: ['1 swtpm'] };
  expect(compareHostFacts(before, after)).toEqual([
    '+ links: clu1 UP',
    '- links: eth0 UP',
    '+ processes: 1 swtpm',
  ]);
});
