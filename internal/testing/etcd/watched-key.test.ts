import { expect, test } from '@jest/globals';
import { create, toBinary, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import {
  LeaseKeepAliveRequestSchema,
  RangeRequestSchema,
  TxnRequestSchema,
  WatchRequestSchema,
} from '../../etcd/proto/gen/etcdserverpb_pb.js';
import { watchedKey } from './watched-key.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The message in gRPC framing: not compressed, its length, the message. */
function bodyOf<Desc extends DescMessage>(schema: Desc, message: MessageInitShape<Desc>): Buffer {
  const encoded = toBinary(schema, create(schema, message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(encoded.length, 1);
  return Buffer.concat([head, encoded]);
}

const key = bytes('/cluster/nodes/');
const rangeEnd = bytes('/cluster/nodes0');

test.each([
  { name: 'a key', value: { key }, want: '/cluster/nodes/' },
  { name: 'a prefix', value: { key, rangeEnd, startRevision: 7n, fragment: true }, want: '/cluster/nodes/' },
  {
    name: 'a long prefix',
    value: { key: bytes(`/cluster/${'x'.repeat(100)}`), rangeEnd: bytes('y'.repeat(110)) },
    want: `/cluster/${'x'.repeat(100)}`,
  },
])('watchedKey() returns the key of a watch request: $name', ({ value, want }) => {
  const body = bodyOf(WatchRequestSchema, { requestUnion: { case: 'createRequest', value } });
  expect(watchedKey(body)).toBe(want);
});

const ten = bytes('/cluster/k'); // the length of this key, 10, is also the byte that starts the first field in protobuf
test.each([
  { name: 'a Range request', body: bodyOf(RangeRequestSchema, { key, rangeEnd }) },
  { name: 'a Range request whose key has ten bytes', body: bodyOf(RangeRequestSchema, { key: ten }) },
  {
    name: 'a transaction',
    body: bodyOf(TxnRequestSchema, {
      compare: [{ key }],
      success: [{ request: { case: 'requestPut', value: { key, value: key } } }],
    }),
  },
  {
    name: 'a transaction without conditions',
    body: bodyOf(TxnRequestSchema, { success: [{ request: { case: 'requestPut', value: { key } } }] }),
  },
  { name: 'a lease', body: bodyOf(LeaseKeepAliveRequestSchema, { id: 7n }) },
  { name: 'an empty message', body: Buffer.alloc(0) },
])('watchedKey() returns undefined for other requests: $name', ({ body }) => {
  expect(watchedKey(body)).toBeUndefined();
});
