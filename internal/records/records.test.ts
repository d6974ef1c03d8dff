import { describe, expect, test } from '@jest/globals';
import { put } from '../etcd/index.ts';
import { MemoryEtcd } from '../testing/etcd/memory-etcd.ts';
import { nodeNameKey, parseNodeKey, records } from './record-kinds.ts';
import type { NodeRecord } from './node-shapes.ts';

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

test('read() returns a record with a condition that fails once the key is written', async () => {
  const etcd = new MemoryEtcd();
  const { signal } = new AbortController();
  const key = records.node.key('node-1');
  const write = put(key, records.node.encode(node));
  const missing = await records.node.read(etcd, key, signal);
  expect([missing.entry, missing.record]).toEqual([undefined, undefined]);
  const stored = await etcd.commit({ when: [missing.unchanged], then: [write] }, { signal });
  const read = await records.node.read(etcd, key, signal);
  expect([stored.kind, read.record]).toEqual(['committed', node]);
  for (const { unchanged, want } of [
    { unchanged: missing.unchanged, want: 'conflict' },
    { unchanged: read.unchanged, want: 'committed' },
    { unchanged: read.unchanged, want: 'conflict' },
  ])
    expect((await etcd.commit({ when: [unchanged], then: [write] }, { signal })).kind).toBe(want);
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
