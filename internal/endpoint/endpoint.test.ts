import { describe, expect, test } from '@jest/globals';
import { formatEndpoint, hostOf, parseEndpoint, splitEndpoint } from './index.ts';

describe('parseEndpoint()', () => {
  const cases = [
    { given: '192.0.2.1', want: '192.0.2.1:9000' },
    { given: '192.0.2.1:1', want: '192.0.2.1:1' },
    { given: 'node1.example.org', want: 'node1.example.org:9000' },
    { given: '2001:db8::1', want: '[2001:db8::1]:9000' },
    { given: '[2001:db8::1]:99', want: '[2001:db8::1]:99' },
    { given: '[192.0.2.1]:99', want: undefined },
    { given: '192.0.2:9000', want: undefined },
    { given: 'host:0', want: undefined },
    { given: 'host:65536', want: undefined },
    { given: 'http://host', want: undefined },
    { given: '', want: undefined },
  ];
  test.each(cases)('parseEndpoint() reads "$given" as $want', ({ given, want }) => {
    expect(parseEndpoint(given, 9000)).toBe(want);
  });
});

test.each([
  { endpoint: '192.0.2.1:2379', host: '192.0.2.1', port: 2379 },
  { endpoint: '[2001:db8::1]:2379', host: '2001:db8::1', port: 2379 },
  { endpoint: 'etcd.example:2379', host: 'etcd.example', port: 2379 },
])(
  "splitEndpoint() and formatEndpoint() are each other's inverse for $endpoint",
  ({ endpoint, host, port }) => {
    expect(splitEndpoint(endpoint)).toEqual({ host, port });
    expect(hostOf(endpoint)).toBe(host);
    expect(formatEndpoint(host, port)).toBe(endpoint);
  },
);
