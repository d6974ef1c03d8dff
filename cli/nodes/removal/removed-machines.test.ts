import { describe, expect, test } from '@jest/globals';
import type { RemovedMachine } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { findRemoved, removedNodesOf } from './removed-machines.ts';

const EK = `tpm-ek:${'e'.repeat(64)}`;
const [KEY_A, KEY_B] = [`machine-key:${'a'.repeat(64)}`, `machine-key:${'b'.repeat(64)}`];

const removal = (more: Partial<RemovedMachine>): RemovedMachine =>
  ({ removal: 1, name: 'n4', nodeId: 'node-1', removedMs: 1n, readmitted: false, ...more }) as RemovedMachine;

/** A machine that was reset, joined again with another key, and was then removed: its hardware has the last removal only. */
const REMOVED_AFTER_RESET = [
  removal({ identity: EK, removal: 2, nodeId: 'node-2', removedMs: 2n }),
  removal({ identity: KEY_A }),
  removal({ identity: KEY_B, nodeId: 'node-2', removedMs: 2n }),
];

describe('removedNodesOf()', () => {
  test('a removal that is recorded by hardware and by key is one machine, known by its hardware', () => {
    const records = [removal({ identity: KEY_A }), removal({ identity: EK, readmitted: true })];
    expect(removedNodesOf(records)).toEqual([{ main: records[1], records, isFormer: false }]);
  });

  test('the key of before a reset is a former one, not another machine', () => {
    expect(
      removedNodesOf(REMOVED_AFTER_RESET).map(({ main, isFormer }) => [main.identity, isFormer]),
    ).toEqual([
      [EK, false],
      [KEY_A, true],
    ]);
  });

  test.each([
    { name: 'a later one', more: { removedMs: 3n } },
    { name: 'one of another name', more: { name: 'n5' } },
  ])('a machine without known hardware is no former one: $name', ({ more }) => {
    const nodes = removedNodesOf([
      ...REMOVED_AFTER_RESET,
      removal({ identity: KEY_B, nodeId: 'node-3', ...more }),
    ]);
    expect(nodes.at(-1)).toMatchObject({ isFormer: false });
  });
});

describe('findRemoved()', () => {
  test.each(['n4', 'node-2', EK, EK.slice(0, 20), KEY_B])(
    'finds the last removal of a machine that was reset in between: %s',
    (which) => {
      expect(findRemoved(REMOVED_AFTER_RESET, which).main.nodeId).toBe('node-2');
    },
  );

  test('finds a former key that is named itself', () => {
    expect(findRemoved(REMOVED_AFTER_RESET, KEY_A).main.nodeId).toBe('node-1');
  });

  test('prefers the machine that is not readmitted', () => {
    const records = [
      removal({ identity: EK, readmitted: true }),
      removal({ identity: KEY_B, nodeId: 'node-2', removedMs: 9n }),
    ];
    expect(findRemoved(records, 'n4').main.identity).toBe(KEY_B);
  });

  test('finds the hardware of a machine that a restore has removed under its key too', () => {
    const records = [
      removal({ identity: KEY_A, nodeId: 'node-1', removedMs: 5n }),
      removal({ identity: EK, nodeId: '', removedMs: 5n }),
    ];
    expect(findRemoved(records, 'n4').main.identity).toBe(EK);
  });

  test('refuses a name of two machines with hardware of their own', () => {
    const other = removal({ identity: EK.replaceAll('e', 'f'), nodeId: 'node-3', removedMs: 3n });
    expect(() => findRemoved([...REMOVED_AFTER_RESET, other], 'n4')).toThrow(
      `"n4" matches 2 removed machines: ${EK}, ${EK.replaceAll('e', 'f')}`,
    );
    expect(() => findRemoved([], 'n4')).toThrow('removed machine "n4" not found');
  });

  test('refuses a prefix of fewer than eight digits, whatever kind is written before it', () => {
    expect(() => findRemoved(REMOVED_AFTER_RESET, 'tpm-ek:eeeeeee')).toThrow('not found');
    expect(findRemoved(REMOVED_AFTER_RESET, 'tpm-ek:eeeeeeee').main.identity).toBe(EK);
  });
});
