import { describe, expect, test } from '@jest/globals';
import { nodeNameKey, parseNodeKey, records } from './record-kinds.ts';
import type { NodeRecord } from './record-shapes.ts';

const node: NodeRecord = {
  version: 1,
  nodeId: 'node-1',
  name: 'a',
  pubKey: btoa('key'),
  state: 'UP',
  roles: ['ConsensusMember'],
  labels: { zone: 'x' },
  createdMs: 1,
};

test('decode() returns the record that encode() wrote', () => {
  expect(records.node.decode('k', records.node.encode(node))).toEqual(node);
});

describe('decode() refuses', () => {
  const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
  test.each([
    { name: 'an empty value', value: new Uint8Array() },
    { name: 'a truncated record', value: records.node.encode(node).slice(0, 40) },
    { name: 'a newer version', value: encode({ ...node, version: 2 }) },
    { name: 'an unknown field', value: encode({ ...node, extra: 1 }) },
    { name: 'an unknown role', value: encode({ ...node, roles: ['Gardener'] }) },
    { name: 'a missing field', value: encode({ ...node, state: undefined }) },
    { name: 'bytes that are not UTF-8', value: Uint8Array.of(0xff, 0xfe) },
  ])('decode() refuses $name', ({ value }) => {
    expect(() => records.node.decode('nodes/x/record', value)).toThrow(
      expect.objectContaining({
        code: 'records-invalid',
        message: expect.stringContaining('nodes/x/record') as unknown,
      }),
    );
  });
});

test("parseNodeKey() accepts the keys of a node's records and no others", () => {
  expect(parseNodeKey(records.status.key('node-1'))).toEqual({ nodeId: 'node-1', part: 'status' });
  for (const key of [nodeNameKey('a'), 'nodes/a', 'nodes/a/b/record', 'nodes//record', 'nodes/a/other'])
    expect(parseNodeKey(key)).toBeUndefined();
});
