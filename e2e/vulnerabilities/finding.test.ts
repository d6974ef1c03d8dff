import { describe, expect, test } from '@jest/globals';
import { parseExceptions, problemsOf, type Exception, type Finding } from './finding.ts';

const NOW = Date.parse('2026-11-30T12:00:00Z');
const TAR: Finding = { id: 'GHSA-aaaa-bbbb-cccc', what: 'tar-stream', where: 'package-lock.json' };
const NET: Finding = { id: 'GO-2026-0001', what: 'golang.org/x/net@v0.55.0', where: 'kubelet' };

function exception(id: string, until: string): Exception {
  return { id, reason: 'nothing here calls the function', until };
}

describe('problemsOf()', () => {
  test('names each finding without an exception', () =>
    expect(problemsOf([TAR, NET], [exception(NET.id, '2026-12-01')], NOW)).toEqual([
      'GHSA-aaaa-bbbb-cccc: tar-stream in package-lock.json',
    ]));

  test('an exception counts until the end of its last day', () => {
    const exceptions = [exception(NET.id, '2026-11-30')];
    expect(problemsOf([NET], exceptions, NOW)).toEqual([]);
    expect(problemsOf([NET], exceptions, Date.parse('2026-12-01T00:00:00Z'))).toEqual([
      'GO-2026-0001: golang.org/x/net@v0.55.0 in kubelet; its exception ended on 2026-11-30',
    ]);
  });

  test('refuses an exception for a vulnerability that nothing has', () =>
    expect(problemsOf([], [exception(NET.id, '2026-12-01')], NOW)).toEqual([
      'GO-2026-0001: nothing has this vulnerability any more; delete its exception',
    ]));
});

test.each([
  { what: 'an ID of no database', value: exception('CVE-2026-1', '2026-12-01') },
  { what: 'a day that does not exist', value: exception(NET.id, '2026-02-31') },
  { what: 'no reason', value: { ...exception(NET.id, '2026-12-01'), reason: '' } },
  { what: 'an unknown field', value: { ...exception(NET.id, '2026-12-01'), untill: '2027-01-01' } },
])('parseExceptions() refuses $what', ({ value }) => {
  const read = (each: object) => () => parseExceptions(JSON.stringify({ exceptions: [each] }));
  expect(read(exception(NET.id, '2026-12-01'))()).toHaveLength(1);
  expect(read(value)).toThrow(/"path"/);
});
