import { expect, test } from '@jest/globals';
import { RpcError } from '../rpc/index.ts';
import { etcdError } from './errors.ts';

test.each([
  'Received RST_STREAM with code 2',
  'Call ended without gRPC status',
  // The client received the headers of the response, and not its trailers.
  'Received HTTP status code 200',
])('etcdError() lets callers retry after %j: the member stopped in the middle of a response', (message) => {
  const ended = new RpcError('rpc-failed', 'calling Range', { cause: new Error(message) });
  expect(etcdError('reading /key from etcd', ended)).toMatchObject({
    code: 'etcd-unavailable',
    retryable: true,
  });
});

test('etcdError() does not let callers retry an unknown error', () => {
  const failed = new RpcError('rpc-failed', 'calling Range', {
    cause: new Error('etcdserver: something new'),
  });
  expect(etcdError('reading /key from etcd', failed)).toMatchObject({
    code: 'etcd-failed',
    retryable: false,
  });
});

test('etcdError() recognizes the alarm CORRUPT', () => {
  const refused = new RpcError('rpc-failed', 'calling Range', {
    cause: new Error('etcdserver: corrupt cluster'),
  });
  expect(etcdError('reading /key from etcd', refused)).toMatchObject({
    code: 'etcd-corrupt',
    retryable: false,
  });
});
