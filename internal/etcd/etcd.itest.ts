import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { TestEtcd, untilServing, type TestMember } from '../testing/index.ts';
import type { EtcdClient } from './client.ts';
import { absent, put, remove, unchanged, type WatchEvent } from './key-space.ts';
import { readMemberGauges } from './metrics.ts';
import { Namespace } from './namespace.ts';

const signal = new AbortController().signal;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (value: Uint8Array): string => new TextDecoder().decode(value);

let etcd: TestEtcd;
let member: TestMember;
let root: EtcdClient;

beforeAll(async () => {
  etcd = await TestEtcd.create();
  member = await etcd.startMember('one');
  root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
}, 20_000);
afterAll(() => etcd[Symbol.asyncDispose]());

/** Follows a watch; the test reads its events one by one. */
function follow(events: AsyncIterable<WatchEvent>) {
  const iterator = events[Symbol.asyncIterator]();
  return {
    next: async (): Promise<WatchEvent> => {
      const { value } = (await iterator.next()) as { value: WatchEvent };
      return value;
    },
    end: () => iterator.return?.(),
  };
}

describe('keys', () => {
  test('commit() writes all keys or none, and returns the conflicting entries', async () => {
    const first = await root.commit(
      { when: [absent('t/a')], then: [put('t/a', bytes('1')), put('t/b', bytes('2'))] },
      { signal },
    );
    expect(first.kind).toBe('committed');
    const again = await root.commit(
      { when: [absent('t/a')], then: [put('t/a', bytes('3'))], otherwiseGet: ['t/a', 't/none'] },
      { signal },
    );
    expect(again).toMatchObject({ kind: 'conflict', found: [{ key: 't/a' }] });
    expect(text((await root.get('t/a', { signal }))?.value ?? bytes(''))).toBe('1');
  });

  test('commit() succeeds for one of 20 concurrent writers with the same condition', async () => {
    await root.commit({ when: [], then: [put('t/counter', bytes('0'))] }, { signal });
    let conflicts = 0;
    const increment = async (): Promise<void> => {
      for (;;) {
        const entry = await root.get('t/counter', { signal });
        if (entry === undefined) throw new Error('the counter is gone');
        const next = bytes(String(Number(text(entry.value)) + 1));
        const result = await root.commit(
          { when: [unchanged(entry)], then: [put('t/counter', next)] },
          { signal },
        );
        if (result.kind === 'committed') return;
        conflicts++;
      }
    };
    await Promise.all(Array.from({ length: 20 }, increment));
    expect(text((await root.get('t/counter', { signal }))?.value ?? bytes(''))).toBe('20');
    expect(conflicts).toBeGreaterThan(0);
  });

  test('list() pages through 1200 entries at one revision', async () => {
    for (let page = 0; page < 12; page++) {
      const then = Array.from({ length: 100 }, (_, i) => put(`many/${page * 100 + i}`, bytes('x')));
      await root.commit({ when: [], then }, { signal });
    }
    const { entries } = await root.list('many/', { signal });
    expect(new Set(entries.map(({ key }) => key)).size).toBe(1200);
  });

  test('entries() pages through values that do not fit into one message, at the given revision', async () => {
    const value = Buffer.alloc(1024 ** 2, 'x');
    let revision = 0n;
    for (let i = 0; i < 9; i++) {
      const result = await root.commit({ when: [], then: [put(`large/${i}`, value)] }, { signal });
      revision = result.revision;
    }
    await root.commit({ when: [], then: [put('large/later', value)] }, { signal });
    const seen: string[] = [];
    for await (const page of root.entries('large/', revision, { signal }))
      seen.push(...page.filter((entry) => value.equals(entry.value)).map(({ key }) => key));
    expect(seen).toEqual(Array.from({ length: 9 }, (_, i) => `large/${i}`));
  });

  test('entries() asks for few entries at once, because etcd builds a whole page before the client can refuse it', async () => {
    const then = Array.from({ length: 40 }, (_, i) =>
      put(`objects/${String(i).padStart(2, '0')}`, bytes('x')),
    );
    const { revision } = await root.commit({ when: [], then }, { signal });
    const sizes: number[] = [];
    for await (const page of root.entries('objects/', revision, { signal })) sizes.push(page.length);
    expect(sizes).toEqual([16, 16, 8]);
  });

  test('entries() asks for fewer entries after large ones, and for more after small ones', async () => {
    const put16 = (name: string, size: number) =>
      root.commit(
        {
          when: [],
          then: Array.from({ length: 16 }, (_, i) => put(`${name}/${i + 10}`, Buffer.alloc(size, 'x'))),
        },
        { signal },
      );
    for (const [name, size] of [
      ['sizes/a', 64 * 1024],
      ['sizes/b', 16],
      ['sizes/c', 16],
    ] as const)
      await put16(name, size);
    const { revision } = await put16('sizes/d', 16);
    const sizes: number[] = [];
    for await (const page of root.entries('sizes/', revision, { signal })) sizes.push(page.length);
    expect(sizes).toEqual([16, 16, 16, 16]);
    const later = await put16('sizes/a', 72 * 1024);
    sizes.length = 0;
    for await (const page of root.entries('sizes/', later.revision, { signal })) sizes.push(page.length);
    expect(sizes).toEqual([16, 14, 16, 16, 2]);
  });

  test('Namespace adds and hides its prefix', async () => {
    const inner = new Namespace(root, '/ns/');
    await inner.commit({ when: [absent('k')], then: [put('k', bytes('v'))] }, { signal });
    expect((await root.get('/ns/k', { signal }))?.key).toBe('/ns/k');
    expect((await inner.list('', { signal })).entries.map(({ key }) => key)).toEqual(['k']);
    expect(
      await inner.commit({ when: [absent('k')], then: [], otherwiseGet: ['k'] }, { signal }),
    ).toMatchObject({
      found: [{ key: 'k' }],
    });
  });
});

describe('watches', () => {
  test('watch() lists all keys first, then yields each transaction without splitting it', async () => {
    await root.commit({ when: [], then: [put('w1/a', bytes('1'))] }, { signal });
    const seen = follow(root.watch('w1/', { signal }));
    expect(await seen.next()).toMatchObject({ kind: 'relist', entries: [{ key: 'w1/a' }] });
    const next = seen.next();
    await root.commit({ when: [], then: [put('w1/b', bytes('2')), remove('w1/a')] }, { signal });
    expect(await next).toMatchObject({
      kind: 'changes',
      changes: expect.arrayContaining([
        expect.objectContaining({ kind: 'delete', key: 'w1/a' }),
        expect.objectContaining({ kind: 'put' }),
      ]),
    });
    await seen.end();
  });

  test('watch() resumes after a revision without missing or repeating an event', async () => {
    const { revision } = await root.list('w2/', { signal });
    for (const value of ['1', '2', '3'])
      await root.commit({ when: [], then: [put('w2/a', bytes(value))] }, { signal });
    const values: string[] = [];
    for await (const event of root.watch('w2/', { signal, afterRevision: revision })) {
      if (event.kind !== 'changes') throw new Error(`unexpected ${event.kind}`);
      for (const change of event.changes) if (change.kind === 'put') values.push(text(change.entry.value));
      if (values.length === 3) break;
    }
    expect(values).toEqual(['1', '2', '3']);
  });

  test('watch() lists again when its revision has been compacted', async () => {
    const { revision } = await root.list('w3/', { signal });
    for (const value of ['1', '2'])
      await root.commit({ when: [], then: [put('w3/a', bytes(value))] }, { signal });
    const now = await root.list('w3/', { signal });
    await root.compact(now.revision, { signal });
    const seen = follow(root.watch('w3/', { signal, afterRevision: revision }));
    expect(await seen.next()).toMatchObject({
      kind: 'relist',
      entries: [{ key: 'w3/a', value: bytes('2') }],
    });
    const next = seen.next();
    await root.commit({ when: [], then: [put('w3/a', bytes('3'))] }, { signal });
    expect(await next).toMatchObject({ kind: 'changes', changes: [{ kind: 'put' }] });
    await seen.end();
  });

  test('watch() ends when its signal fires, and throws the reason of the signal', async () => {
    const stop = new AbortController();
    const seen = follow(root.watch('w4/', { signal: stop.signal }));
    await seen.next();
    const next = seen.next();
    stop.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
  });

  test.each(['kill', 'stop'] as const)(
    'watch() continues where it stopped after a %s of the member, and reports the interruption',
    async (how) => {
      await root.commit({ when: [], then: [remove('w5/a')] }, { signal });
      const seen = follow(root.watch('w5/', { signal }));
      await seen.next();
      await root.commit({ when: [], then: [put('w5/a', bytes('1'))] }, { signal });
      expect(await seen.next()).toMatchObject({ kind: 'changes' });
      const interrupted = seen.next();
      await member[how]();
      expect(await interrupted).toMatchObject({ kind: 'interrupted', error: { code: 'etcd-unavailable' } });
      await expect(root.get('w5/a', { signal })).rejects.toMatchObject({ code: 'etcd-unavailable' });
      await member.restart();
      await untilServing(root);
      await root.commit({ when: [], then: [put('w5/a', bytes('2'))] }, { signal });
      for (;;) {
        const event = await seen.next();
        if (event.kind === 'interrupted') continue;
        expect(event).toMatchObject({
          kind: 'changes',
          changes: [{ kind: 'put', entry: { value: bytes('2') } }],
        });
        break;
      }
      await seen.end();
    },
    20_000,
  );
});

test('readTogether() returns keys and prefixes as they were at one revision', async () => {
  const read = () =>
    root
      .readTogether([{ key: 'together/a' }, { prefix: 'together/' }, { key: 'together/none' }], { signal })
      .then((found) =>
        found.map((entries) => entries.map(({ key, value }) => `${key}=${Buffer.from(value).toString()}`)),
      );
  expect(await read()).toEqual([[], [], []]);
  // Each write sets both keys to the same value. A reader that gets two different values has not read at one revision.
  const write = async () => {
    for (let value = 0; value < 50; value++)
      await root.commit(
        { when: [], then: ['together/a', 'together/b'].map((key) => put(key, bytes(`${value}`))) },
        { signal },
      );
  };
  const check = async () => {
    for (let reads = 0; reads < 50; reads++) {
      const [[a] = [], both = []] = await read();
      expect(both).toEqual(a === undefined ? [] : [a, a.replace('together/a', 'together/b')]);
    }
  };
  await Promise.all([write(), check()]);
  const namespaced = new Namespace(root, 'together/');
  expect(await namespaced.readTogether([{ key: 'b' }, { prefix: '' }], { signal })).toMatchObject([
    [{ key: 'b', value: bytes('49') }],
    [{ key: 'a' }, { key: 'b' }],
  ]);
});

describe('leases', () => {
  test('keepLeaseAlive() keeps a key; a watch reports when the lease expires', async () => {
    const lease = await root.grantLease(2, { signal });
    await root.commit({ when: [], then: [put('l/a', bytes('x'), lease)] }, { signal });
    expect((await root.get('l/a', { signal }))?.leaseId).toBe(lease);
    expect(await root.keepLeaseAlive(lease, { signal })).toBe(2);
    const seen = follow(root.watch('l/', { signal }));
    await seen.next();
    const gone = seen.next();
    await root.revokeLease(lease, { signal });
    expect(await gone).toMatchObject({ kind: 'changes', changes: [{ kind: 'delete', key: 'l/a' }] });
    expect(await root.keepLeaseAlive(lease, { signal })).toBeUndefined();
    await expect(root.revokeLease(lease, { signal })).rejects.toMatchObject({ code: 'etcd-lease-gone' });
    await seen.end();
  });

  test('keepLeaseAlive() renews 500 leases concurrently over few streams', async () => {
    const leases = await Promise.all(Array.from({ length: 500 }, () => root.grantLease(60, { signal })));
    const answers = await Promise.all(leases.map((lease) => root.keepLeaseAlive(lease, { signal })));
    expect(answers.every((ttl) => ttl === 60)).toBe(true);
    await Promise.all(leases.map((lease) => root.revokeLease(lease, { signal })));
  });
});

describe('maintenance', () => {
  test('status() and readMemberGauges() report the same size and quota', async () => {
    const status = await root.maintenance.status({ signal });
    const gauges = await readMemberGauges(member.metricsUrl, signal);
    expect(gauges).toMatchObject({ quotaBytes: 2 ** 31, hasLeader: true, isLeader: true });
    expect(status.quotaBytes).toBe(gauges.quotaBytes);
    expect(gauges.dbSizeBytes).toBeGreaterThan(0);
    expect(await root.maintenance.alarms({ signal })).toEqual([]);
  });

  test('snapshot() yields the whole database', async () => {
    let sizeBytes = 0;
    for await (const part of root.maintenance.snapshot(signal)) sizeBytes += part.length;
    expect(sizeBytes).toBeGreaterThan((await root.maintenance.status({ signal })).dbSizeBytes - 1);
  });
});

test('EtcdClient refuses a server certificate of another CA', async () => {
  await using other = await TestEtcd.create();
  const untrusting = await other.connect('root', member.endpoint);
  await expect(untrusting.get('x', { signal })).rejects.toMatchObject({ code: 'rpc-handshake' });
});
