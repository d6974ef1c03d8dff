import { expect, test } from '@jest/globals';
import { unmergedProblems } from './unmerged-problems.ts';

const machine = (name: string, digit: string) => ({
  identity: `tpm-ek:${digit.repeat(64)}`,
  nodeId: `node-${digit.repeat(32)}`,
  name,
});

test('unmergedProblems() names each member once, and at most 16', () => {
  expect(unmergedProblems([machine('w2', '1'), machine('w2', '2')], 'w1')).toEqual([
    {
      ...{ code: 'doctor-removal-unmerged', subject: 'w2', isWarning: true },
      cause: 'w1 knows that w2 was removed before the restore',
    },
  ]);
  const many = Array.from({ length: 20 }, (_, at) => machine(`w${at}`, '3'));
  expect(unmergedProblems(many, 'w1')).toHaveLength(16);
});
