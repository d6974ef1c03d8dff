import { expect, test } from '@jest/globals';
import { planRetention } from './plan-retention.ts';

function backup(
  file: string,
  over: { epoch?: number; state?: string; takenMs?: number; provedMs?: number; status?: string },
) {
  const { epoch = 1, state = '1', takenMs = 1, provedMs, status = 'good' } = over;
  return { file, status, provedMs, header: { epoch, takenMs, revisions: { state, kubernetes: '1' } } };
}

const deleted = (listed: readonly ReturnType<typeof backup>[], keep: number): readonly string[] =>
  planRetention(listed, keep).map(({ file }) => file);

test('planRetention() keeps the backups with the highest epoch and revision, also after the clock was set back', () => {
  const all = [
    backup('a', { epoch: 1, state: '90', takenMs: 50 }),
    backup('b', { epoch: 2, state: '20', takenMs: 40 }),
    backup('c', { epoch: 2, state: '100', takenMs: 10 }),
  ];
  expect(deleted(all, 2)).toEqual(['a']);
  expect(deleted(all, 1)).toEqual(['b', 'a']);
});

test('planRetention() never deletes the newest proved backup, nor the only backup', () => {
  const all = [
    backup('new', { state: '3' }),
    backup('proved', { state: '2', provedMs: 5 }),
    backup('older', { state: '1', provedMs: 4 }),
  ];
  expect(deleted(all, 1)).toEqual(['older']);
  expect(deleted([backup('only', {})], 0)).toEqual([]);
});

test('planRetention() neither counts nor deletes files that are not good', () => {
  const all = [
    backup('forged', { state: '9', status: 'owner-unknown' }),
    backup('cut', { state: '8', status: 'backup-truncated' }),
    backup('good', { state: '2' }),
    backup('old', { state: '1' }),
  ];
  expect(deleted(all, 2)).toEqual([]);
  expect(deleted(all, 1)).toEqual(['old']);
});
