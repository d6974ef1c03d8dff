import { expect, test } from '@jest/globals';
import { SLOT_QUEUE_PREFIX, slotPositions } from './control-plane-slot.ts';

const queued = (nodeId: string, createRevision: bigint) => ({
  key: SLOT_QUEUE_PREFIX + nodeId,
  createRevision,
});
const pace = (text: string): Uint8Array => new TextEncoder().encode(text);

test('slotPositions() follows the order of requests and the duration of the last change', () => {
  const positions = slotPositions(
    [queued('c', 9n), queued('a', 3n), queued('b', 5n)],
    pace('{"durationMs":8000}'),
  );
  expect([...positions]).toEqual([
    ['a', { position: 0, estimateMs: 0 }],
    ['b', { position: 1, estimateMs: 8_000 }],
    ['c', { position: 2, estimateMs: 16_000 }],
  ]);
});

const unreadable = [
  { name: 'a missing pace record', given: undefined },
  { name: 'a pace that is not JSON', given: pace('{') },
  { name: 'null', given: pace('null') },
  { name: 'another JSON type', given: pace('{"durationMs":"8"}') },
  { name: 'a negative duration', given: pace('{"durationMs":-1}') },
  { name: 'a duration above the maximum', given: pace(`{"durationMs":1,"x":"${'x'.repeat(5_000)}"}`) },
];
test.each(unreadable)('slotPositions() uses the default duration for $name', ({ given }) => {
  expect(slotPositions([queued('a', 1n), queued('b', 2n)], given).get('b')?.estimateMs).toBe(15_000);
});
