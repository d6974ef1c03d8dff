import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { BackupRecord } from '../../../internal/records/index.ts';
import { planBackup, planRing, type BackupInputs } from './plan-backup.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;
const schedule = { nodeIds: ['n1', 'n2', 'n3'], everyMinutes: 60, issuedMs: NOW - 10 * MINUTE };

function kept(seq: number, nodeId: string, change: Partial<BackupRecord> = {}): BackupRecord {
  return {
    ...{ version: 1, seq, nodeId, name: `${String(seq).padStart(8, '0')}-20270115T080000000Z.backup` },
    ...{ takenMs: NOW - 30 * MINUTE, provedMs: NOW - 29 * MINUTE, epoch: 1, sha256: '0'.repeat(64) },
    sizeBytes: 1,
    ...change,
  };
}

const plan = (change: Partial<BackupInputs> = {}) =>
  planBackup({
    nowMs: NOW,
    nodeId: 'n1',
    schedule,
    head: undefined,
    failedMs: undefined,
    kept: [],
    ...change,
  });

describe('planBackup()', () => {
  test('takes the first backup at once', () => {
    expect(plan()).toEqual({ kind: 'take', seq: 1 });
  });

  test('lets one control plane take the backup, and the next one half a minute later if it has not', () => {
    const fresh = { ...schedule, issuedMs: NOW };
    const decide = (nodeId: string, nowMs: number) => plan({ schedule: fresh, nodeId, nowMs }).kind;
    expect(['n1', 'n2', 'n3'].map((id) => decide(id, NOW))).toEqual(['take', 'wait', 'wait']);
    expect(['n2', 'n3'].map((id) => decide(id, NOW + 30_000))).toEqual(['take', 'wait']);
    expect(decide('n3', NOW + 60_000)).toBe('take');
  });

  test('plans the next backup one period after the newest proved backup, on the node whose own newest backup is the oldest', () => {
    const all = [kept(1, 'n1'), kept(2, 'n2')];
    expect(plan({ kept: all })).toMatchObject({ kind: 'wait', untilMs: NOW + 30 * MINUTE + 30_000 });
    const later = NOW + 30 * MINUTE;
    expect(plan({ kept: all, nodeId: 'n3', nowMs: later })).toEqual({ kind: 'take', seq: 3 });
    expect(plan({ kept: all, nodeId: 'n1', nowMs: later }).kind).toBe('wait');
  });

  test('ignores an unproved backup when it computes the time of the next one', () => {
    const unproved = kept(2, 'n2', { takenMs: NOW - MINUTE, provedMs: undefined });
    expect(plan({ kept: [unproved] })).toEqual({ kind: 'take', seq: 3 });
  });

  test('waits after a failure of its own', () => {
    const failed = { head: { version: 1 as const, seq: 4 }, failedMs: NOW - MINUTE };
    expect(plan(failed)).toMatchObject({ kind: 'wait', untilMs: NOW + 9 * MINUTE });
    expect(plan({ ...failed, nowMs: NOW + 9 * MINUTE })).toEqual({ kind: 'take', seq: 5 });
  });

  test('takes a backup with the next number at once when the clock was set back', () => {
    const ahead = kept(7, 'n1', { takenMs: NOW + 400 * 24 * 60 * MINUTE });
    expect(plan({ kept: [ahead] })).toEqual({ kind: 'take', seq: 8 });
    expect(plan({ kept: [ahead], failedMs: NOW + 60 * MINUTE }).kind).toBe('take');
  });

  test('takes no backup on a control plane that the schedule does not name', () => {
    expect(plan({ nodeId: 'n4' })).toMatchObject({ kind: 'wait', why: expect.stringContaining('sign') });
  });

  test('takes a number above the number of the last attempt', () => {
    const head = { version: 1 as const, seq: 9 };
    expect(plan({ head })).toEqual({ kind: 'take', seq: 10 });
  });
});

describe('planRing()', () => {
  const seqs = (list: readonly BackupRecord[]): number[] => list.map(({ seq }) => seq);

  test.each([
    {
      name: 'deletes the oldest proved backups if there are more than the schedule keeps',
      own: [[1], [2], [3]],
      keep: 2,
      want: [1],
    },
    {
      name: 'deletes nothing if there are no more backups than the schedule keeps',
      own: [[1], [2]],
      keep: 2,
      want: [],
    },
    {
      name: 'deletes an unproved backup that is older than a proved one',
      own: [[1, 'taken'], [2]],
      keep: 5,
      want: [1],
    },
    {
      name: 'keeps the newest backup, which may still be proved',
      own: [[1], [2, 'taken']],
      keep: 1,
      want: [],
    },
    {
      name: 'keeps the last proved backup even if many newer backups are unproved',
      own: [[1], [2, 'taken'], [3, 'taken'], [4, 'taken']],
      keep: 1,
      want: [3, 2],
    },
  ])('$name', ({ own, keep, want }) => {
    const records = own.map(([seq, state]) =>
      kept(Number(seq), 'n1', state === 'taken' ? { provedMs: undefined } : {}),
    );
    expect(seqs(planRing(records, keep))).toEqual(want);
  });

  test('keeps the newest proved backup, no matter how the clocks were set', () => {
    const records = fc.uniqueArray(
      fc.record({ seq: fc.integer({ min: 1, max: 99 }), proved: fc.boolean(), takenMs: fc.nat() }),
      { selector: ({ seq }) => seq, minLength: 1 },
    );
    fc.assert(
      fc.property(records, fc.integer({ min: 1, max: 4 }), (drawn, keep) => {
        const own = drawn.map(({ seq, proved, takenMs }) =>
          kept(seq, 'n1', { takenMs, provedMs: proved ? takenMs : undefined }),
        );
        const gone = new Set(planRing(own, keep));
        const good = own.filter(({ provedMs }) => provedMs !== undefined).map(({ seq }) => seq);
        const left = own.filter((each) => !gone.has(each)).map(({ seq }) => seq);
        if (good.length > 0) expect(left).toContain(Math.max(...good));
      }),
    );
  });
});
