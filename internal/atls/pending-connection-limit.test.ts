import { describe, expect, test } from '@jest/globals';
import { PendingConnectionLimit } from './pending-connection-limit.ts';

const busy = expect.objectContaining({ code: 'atls-busy' });

describe('acquire()', () => {
  test('limits the slots of one source', () => {
    const admission = new PendingConnectionLimit({ maxPending: 10, maxPendingPerSource: 2 });
    const first = admission.acquire('192.0.2.1');
    admission.acquire('192.0.2.1');
    expect(() => admission.acquire('192.0.2.1')).toThrow(busy);
    first[Symbol.dispose]();
    first[Symbol.dispose](); // twice is once
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
    { name: 'two IPv4 addresses', a: '192.0.2.1', b: '192.0.2.11', same: false },
    { name: 'an IPv4 address and itself mapped', a: '192.0.2.1', b: '::ffff:192.0.2.1', same: true },
    { name: 'two mapped addresses', a: '::ffff:192.0.2.1', b: '::ffff:192.0.2.2', same: false },
    { name: 'one /64', a: '2001:db8:0:1::1', b: '2001:db8:0:1:ffff:ffff:ffff:ffff', same: true },
    { name: 'one /64 written otherwise', a: '2001:DB8::1:0:0:0:1', b: '2001:db8:0:1::2', same: true },
    { name: 'two /64', a: '2001:db8:0:1::1', b: '2001:db8:0:2::1', same: false },
    { name: 'two links of one address', a: 'fe80::1%eth0', b: 'fe80::2%eth1', same: true },
    { name: 'loopback and unspecified', a: '::1', b: '::', same: true },
  ];
  test.each(pairs)('counts $name as the same source: $same', ({ a, b, same }) => {
    const admission = new PendingConnectionLimit({ maxPending: 10, maxPendingPerSource: 1 });
    admission.acquire(a);
    if (same) expect(() => admission.acquire(b)).toThrow(busy);
    else expect(() => admission.acquire(b)).not.toThrow();
  });
});
