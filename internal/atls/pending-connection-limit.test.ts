import { describe, expect, test } from '@jest/globals';
import { PendingConnectionLimit } from './pending-connection-limit.ts';

const busy = expect.objectContaining({ code: 'atls-busy' });

describe('PendingConnectionLimit.acquire()', () => {
  test('limits the slots of one source', () => {
    const admission = new PendingConnectionLimit({ maxPending: 10, maxPendingPerSource: 2 });
    const first = admission.acquire('192.0.2.1');
    admission.acquire('192.0.2.1');
    expect(() => admission.acquire('192.0.2.1')).toThrow(busy);
    first[Symbol.dispose]();
    first[Symbol.dispose](); // disposing a slot twice frees it once
    admission.acquire('192.0.2.1');
    expect(() => admission.acquire('192.0.2.1')).toThrow(busy);
    expect(admission.pending).toBe(2);
  });

  test('limits the slots of all sources together', () => {
    const admission = new PendingConnectionLimit({ maxPending: 2, maxPendingPerSource: 2 });
    const slots = [admission.acquire('192.0.2.1'), admission.acquire('192.0.2.2')];
    expect(() => admission.acquire('192.0.2.3')).toThrow(busy);
    for (const slot of slots) slot[Symbol.dispose]();
    expect(admission.pending).toBe(0);
    admission.acquire('192.0.2.3');
  });

  const pairs: readonly { name: string; a: string; b: string; same: boolean }[] = [
    { name: 'two different IPv4 addresses as two sources', a: '192.0.2.1', b: '192.0.2.11', same: false },
    {
      name: 'an IPv4 address and its IPv4-mapped IPv6 address as one source',
      a: '192.0.2.1',
      b: '::ffff:192.0.2.1',
      same: true,
    },
    {
      name: 'two different IPv4-mapped addresses as two sources',
      a: '::ffff:192.0.2.1',
      b: '::ffff:192.0.2.2',
      same: false,
    },
    {
      name: 'two addresses in one IPv6 /64 as one source',
      a: '2001:db8:0:1::1',
      b: '2001:db8:0:1:ffff:ffff:ffff:ffff',
      same: true,
    },
    {
      name: 'two spellings of one IPv6 /64 as one source',
      a: '2001:DB8::1:0:0:0:1',
      b: '2001:db8:0:1::2',
      same: true,
    },
    {
      name: 'addresses in two IPv6 /64 networks as two sources',
      a: '2001:db8:0:1::1',
      b: '2001:db8:0:2::1',
      same: false,
    },
    {
      name: 'two link-local addresses on different interfaces as one source',
      a: 'fe80::1%eth0',
      b: 'fe80::2%eth1',
      same: true,
    },
    { name: 'the loopback and the unspecified address as one source', a: '::1', b: '::', same: true },
  ];
  test.each(pairs)('counts $name', ({ a, b, same }) => {
    const admission = new PendingConnectionLimit({ maxPending: 10, maxPendingPerSource: 1 });
    admission.acquire(a);
    if (same) expect(() => admission.acquire(b)).toThrow(busy);
    else expect(() => admission.acquire(b)).not.toThrow();
  });
});
