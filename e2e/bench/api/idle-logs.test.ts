import { expect, test } from '@jest/globals';
import { bySource, complaintsOf, newLines } from './idle-logs.ts';

test('complaintsOf() finds warnings and errors of klog and etcd, and removes the numbers from their texts', () => {
  const lines = [
    '2026-11-27T07:00:00.1Z stderr F W1127 07:00:00.123456       1 watcher.go:230] watch chan error: etcd 12 retries',
    '2026-11-27T07:00:00.1Z stderr F W1127 07:00:01.123456       1 watcher.go:230] watch chan error: etcd 13 retries',
    '2026-11-27T07:00:00.1Z stderr F I1127 07:00:01.123456       1 watcher.go:230] started',
    '{"level":"warn","ts":"2026","caller":"txn/util.go:93","msg":"apply request took too long","took":"120ms"}',
    '{"level":"info","ts":"2026","caller":"mvcc/index.go:1","msg":"compact"}',
  ];
  expect([...complaintsOf(lines)]).toEqual([
    'watcher.go:230 watch chan error: etcd … retries',
    'txn/util.go:93 apply request took too long',
  ]);
});

test('newLines() finds the lines that each source has got, also the first one', () => {
  const read = (api: readonly string[], etcd: readonly string[]) =>
    bySource(['==> /var/log/pods/api/0.log', ...api, '==> journal', ...etcd, ''].join('\n'));
  const before = read(['a1', 'a2'], ['e1', 'e2']);
  expect(newLines(before, read(['a1', 'a2', 'a3'], ['e1', 'e2']))).toEqual(['a3']);
  expect(newLines(before, read(['a1', 'a2', 'a3'], ['e1', 'e2', 'e3']))).toEqual(['a3', 'e3']);
  expect(newLines(before, read(['a3'], ['e1', 'e2']))).toEqual(['a3']);
  expect(newLines(new Map(), before)).toEqual(['a1', 'a2', 'e1', 'e2']);
});
