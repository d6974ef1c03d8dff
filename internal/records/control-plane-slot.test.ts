import { expect, test } from '@jest/globals';
import { SLOT_QUEUE_PREFIX, slotPositions } from './control-plane-slot.ts';

const queued = (nodeId: string, createRevision: bigint) => ({
  key: SLOT_QUEUE_PREFIX + nodeId,
  createRevision,
});
const pace = (text: string): Uint8Array => new TextEncoder().encode(text);

test('slotPositions() orders nodes by their requests, and estimates the wait from the duration of the last membership change', () => {
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
  { name: 'no record', given: undefined },
  { name: 'a record that is not JSON', given: pace('{') },
  { name: 'a record that is null', given: pace('null') },
  { name: 'a record with a duration of another JSON type', given: pace('{"durationMs":"8"}') },
  { name: 'a record with a negative duration', given: pace('{"durationMs":-1}') },
  { name: 'a record that is too long', given: pace(`{"durationMs":1,"x":"${'x'.repeat(5_000)}"}`) },
];
test.each(unreadable)(
  'slotPositions() estimates with the default duration of a membership change, given $name',
  ({ given }) => {
    expect(slotPositions([queued('a', 1n), queued('b', 2n)], given).get('b')?.estimateMs).toBe(15_000);
  },
);
