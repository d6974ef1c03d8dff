import { expect, test } from '@jest/globals';
import { records } from '../records/index.ts';
import { createPairs, encodeKeySet, KEY_PHASES, parseKeySet, storedPhase } from './index.ts';
import { parseStage } from './phases.ts';

test('etcd, files and messages keep the names of phases that earlier versions know', () => {
  const stored = ['hand', 'believe', 'issue', 'refresh', 'retire', 'done'];
  expect(KEY_PHASES.map((phase) => storedPhase.encode(phase))).toEqual(stored);
});

test('parseStage() knows the stored and the current name of each phase, and no other', () => {
  const phaseOf = (phase: string) => parseStage({ generation: 2n, phase })?.phase;
  expect(['hand', 'distribute', 'believe', 'trust', 'done', 'asked'].map(phaseOf)).toEqual([
    ...['distribute', 'distribute', 'trust', 'trust', 'done', undefined],
  ]);
});

test('a rotation that an earlier version recorded continues', async () => {
  const record = {
    ...{ version: 1, generation: 2, phase: 'believe', startedMs: 1, phaseSinceMs: 1 },
    ...{ startedBy: 'operator:owner', reason: '' },
  };
  const read = records.keys.decode('keys', Buffer.from(JSON.stringify(record)));
  expect(read.phase).toBe('trust');
  expect(JSON.parse(Buffer.from(records.keys.encode(read)).toString('utf8'))).toEqual(record);
  const pairs = await createPairs(1, 1);
  const set = encodeKeySet({ generation: 2, phase: 'distribute', previous: pairs, next: pairs }).reveal();
  expect(set).toContain('"phase":"hand"');
  expect(parseKeySet('rotation.json', set).phase).toBe('distribute');
});
