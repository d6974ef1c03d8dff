import { expect, test } from '@jest/globals';
import { findDifferences, findStaleIds, type ExpectedChecks } from './compare-checks.ts';
import type { CheckResult } from './kube-bench.ts';

const expected: Omit<ExpectedChecks, 'indifferent'> = {
  failed: [{ id: '1.2.6' }],
  answered: { '3.1.1': { status: 'WARN' }, '4.1.7': { status: 'PASS', worker: 'WARN' } },
};

function resultsOf(statuses: Readonly<Record<string, CheckResult['status']>>): readonly CheckResult[] {
  return Object.entries(statuses).map(([id, status]) => ({ id, status, text: '', actual: '', audit: '' }));
}

test('findDifferences() accepts what the page says', () => {
  const same = { '1.2.6': 'FAIL', '3.1.1': 'WARN', '1.2.9': 'PASS' } as const;
  expect(findDifferences(resultsOf({ ...same, '4.1.7': 'PASS' }), 'control plane', expected)).toEqual([]);
  expect(findDifferences(resultsOf({ ...same, '4.1.7': 'WARN' }), 'worker', expected)).toEqual([]);
});

test.each([
  { name: 'a lost setting whose check is left to people', given: { '4.1.7': 'WARN' }, want: 'PASS' },
  { name: 'a failed check that is not listed', given: { '1.2.9': 'FAIL' }, want: 'PASS' },
  { name: 'a listed check that passes', given: { '1.2.6': 'PASS' }, want: 'FAIL' },
  { name: 'an answered check that passes', given: { '3.1.1': 'PASS' }, want: 'WARN' },
  { name: 'an answered check that fails', given: { '3.1.1': 'FAIL' }, want: 'WARN' },
] as const)('findDifferences() finds $name', ({ given, want }) => {
  const found = findDifferences(resultsOf(given), 'control plane', expected);
  expect(found).toEqual(Object.entries(given).map(([id, status]) => ({ id, expected: want, found: status })));
});

test('findStaleIds() finds reasons and answers for checks that the benchmark does not have', () => {
  expect(findStaleIds(resultsOf({ '3.1.1': 'WARN' }), expected)).toEqual(['1.2.6', '4.1.7']);
  expect(findStaleIds(resultsOf({ '1.2.6': 'FAIL', '4.1.7': 'PASS' }), expected)).toEqual(['3.1.1']);
});
