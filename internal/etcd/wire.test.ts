import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { codeFromMessage } from './errors.ts';
import { parseMemberGauges } from './metrics.ts';
import { prefixEnd, prefixRange } from './wire.ts';

describe('prefixEnd()', () => {
  test('sorts after every key with the prefix and before all later keys', () => {
    const prefixes = fc
      .uint8Array({ minLength: 1, maxLength: 6 })
      .filter((each) => each.some((byte) => byte < 0xff));
    fc.assert(
      fc.property(prefixes, fc.uint8Array({ maxLength: 12 }), (prefix, key) => {
        const end = prefixEnd(prefix);
        const inside = Buffer.compare(key, prefix) >= 0 && Buffer.compare(key, end) < 0;
        const begins = Buffer.compare(key.subarray(0, prefix.length), prefix) === 0;
        expect(inside).toBe(begins);
      }),
    );
  });

  test.each([
    { name: 'an empty prefix', given: [], want: [0] },
    { name: 'a prefix of only 0xff bytes, which has no end', given: [0xff, 0xff], want: [0] },
    { name: 'a prefix that ends with 0xff', given: [0x61, 0xff], want: [0x62] },
  ])('prefixEnd() is right for $name', ({ given, want }) => {
    expect([...prefixEnd(Uint8Array.from(given))]).toEqual(want);
  });

  test('prefixRange() of an empty prefix contains every key', () => {
    expect(prefixRange('')).toEqual({ key: Uint8Array.of(0), rangeEnd: Uint8Array.of(0) });
  });
});

test.each([
  { message: 'etcdserver: permission denied', code: 'etcd-denied' },
  { message: 'etcdserver: can only promote a learner member', code: 'etcd-exists' },
  {
    message: 'etcdserver: can only promote a learner member which is in sync with leader',
    code: 'etcd-member-not-ready',
  },
  { message: 'etcdserver: request timed out, possibly due to connection lost', code: 'etcd-unavailable' },
  { message: 'rpc error: code = PermissionDenied desc = etcdserver: permission denied', code: 'etcd-denied' },
  { message: 'something new', code: undefined },
])('codeFromMessage() maps "$message" to $code', ({ message, code }) => {
  expect(codeFromMessage(message)).toBe(code);
});

describe('parseMemberGauges()', () => {
  const page = `# HELP x
etcd_mvcc_db_total_size_in_bytes 2.0480e+04
etcd_server_quota_backend_bytes 4.294967296e+09
etcd_server_has_leader 1
etcd_server_is_leader 0
`;
  test('reads size, quota and leader', () => {
    expect(parseMemberGauges(page)).toEqual({
      dbSizeBytes: 20480,
      quotaBytes: 2 ** 32,
      hasLeader: true,
      isLeader: false,
    });
  });

  test.each(['', page.replace('etcd_server_has_leader 1', ''), page.replace('4.294967296e+09', 'NaN')])(
    'refuses a metrics page in which a metric is missing or is not a number',
    (broken) => {
      expect(() => parseMemberGauges(broken)).toThrow(expect.objectContaining({ code: 'etcd-failed' }));
    },
  );
});
