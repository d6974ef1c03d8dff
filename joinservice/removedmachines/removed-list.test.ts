import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { EtcdError, put } from '../../internal/etcd/index.ts';
import { records, type RemovedRecord } from '../../internal/records/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd, TestCluster } from '../../internal/testing/index.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { RemovedList } from './removed-list.ts';

const SETTLED_MS = 10_000;
const machine = (digit: string) => ({
  identity: `tpm-ek:${digit.repeat(64)}`,
  nodeId: `node-${digit.repeat(32)}`,
  name: `n${digit}`,
});

let stop: AbortController;
const running: Promise<unknown>[] = [];
beforeEach(() => {
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await Promise.all(running.splice(0));
});

async function createList(epoch = 1, isDown = false) {
  const [etcd, clock] = [new MemoryEtcd(), new FakeClock()];
  const owner = new FakeOwner({ clock });
  const cluster = await TestCluster.create(etcd, () => clock.nowMs(), owner);
  await cluster.setEpoch(epoch);
  if (isDown) etcd.setOutage(new EtcdError('etcd-unavailable', 'testing'));
  const { log, records: logged } = createMemoryLogger();
  const list = new RemovedList({ etcd, ownerDocs: owner.ownerDocs(etcd), clock, log });
  running.push(list.run(stop.signal).catch((error: unknown) => error));
  const remove = (digit: string, over: Partial<RemovedRecord> = {}): void => {
    const about = { version: 1, removal: 1, removedMs: Number(digit), removedBy: 'operator:o' } as const;
    const record = { ...machine(digit), ...about, ...over };
    etcd.commitNow({ when: [], then: [records.removed.put(records.removed.key(record.identity), record)] });
  };
  const hash = (): string => {
    const now = list.value.peek();
    return now.set ? now.value : 'unset';
  };
  return { etcd, clock, owner, list, logged, remove, hash };
}

test('RemovedList has the machines that no owner has readmitted, the newest removal first', async () => {
  const { etcd, clock, owner, list, remove } = await createList();
  for (const digit of ['1', '3', '2']) remove(digit);
  const { identity } = machine('3');
  await owner.record(etcd, owner.sign('readmission', { identity, removal: 1 }));
  await clock.advance(SETTLED_MS);
  expect(await list.fetch(stop.signal)).toMatchObject({ epoch: 1, machines: [machine('2'), machine('1')] });
  remove('3', { removal: 2 });
  await clock.advance(SETTLED_MS);
  const { machines } = await list.fetch(stop.signal);
  expect(machines).toEqual([machine('3'), machine('2'), machine('1')]);
});

test('RemovedList changes its hash with each removal and readmission, and with nothing else', async () => {
  const { etcd, clock, owner, remove, hash } = await createList();
  expect(hash()).toBe('');
  await clock.advance(SETTLED_MS);
  const seen = [hash()];
  const after = async (change: () => unknown): Promise<string> => {
    await change();
    await clock.advance(SETTLED_MS);
    seen.push(hash());
    return hash();
  };
  const first = await after(() => remove('1'));
  expect(await after(() => remove('1', { removedBy: 'operator:other' }))).toBe(first);
  expect(await after(() => etcd.commitNow({ when: [], then: [put('nodes/x', new Uint8Array())] }))).toBe(
    first,
  );
  await after(() => remove('1', { removal: 2 }));
  const { identity } = machine('1');
  await after(() => owner.record(etcd, owner.sign('readmission', { identity, removal: 2 })));
  await after(() => remove('2'));
  expect(new Set(seen).size).toBe(seen.length - 2);
  expect(hash()).toMatch(/^[0-9a-f]{64}$/);
});

test('RemovedList has another hash in a restored cluster, so that nodes compare their lists', async () => {
  const hashOf = async (epoch: number): Promise<string> => {
    const { clock, remove, hash } = await createList(epoch);
    remove('1');
    await clock.advance(SETTLED_MS);
    return hash();
  };
  const first = await hashOf(1);
  expect(await hashOf(1)).toBe(first);
  expect(await hashOf(2)).not.toBe(first);
});

test('RemovedList wakes nodes once when machines are removed one after the other', async () => {
  const { clock, list, remove } = await createList();
  await clock.advance(SETTLED_MS);
  let changes = 0;
  using _subscription = list.value.subscribe(() => (changes += 1));
  for (const digit of ['1', '2', '3']) {
    remove(digit);
    await clock.advance(500);
  }
  await clock.advance(SETTLED_MS);
  expect(changes).toBe(1);
});

test('RemovedList is limited to 4,096 machines', async () => {
  const { clock, list, remove } = await createList();
  for (let at = 0; at < 4_100; at++) {
    const hex = at.toString(16).padStart(64, '0');
    remove('1', { identity: `tpm-ek:${hex}`, removedMs: at });
  }
  await clock.advance(SETTLED_MS);
  const { machines } = await list.fetch(stop.signal);
  expect(machines).toHaveLength(4_096);
  expect(machines[0]?.identity).toMatch(/1003$/);
});

test('RemovedList keeps the previous list while a record is invalid, and logs that once', async () => {
  const { etcd, clock, list, logged, remove, hash } = await createList();
  remove('1');
  await clock.advance(SETTLED_MS);
  const before = hash();
  const broken = records.removed.key(machine('2').identity);
  etcd.commitNow({ when: [], then: [put(broken, Buffer.from('{'))] });
  await clock.advance(SETTLED_MS);
  expect(hash()).toBe(before);
  expect(logged.filter(({ level }) => level === 'warn')).toHaveLength(1);
  remove('2');
  await clock.advance(2 * SETTLED_MS);
  expect((await list.fetch(stop.signal)).machines).toHaveLength(2);
});

test('RemovedList begins once etcd answers', async () => {
  const { etcd, clock, list, remove } = await createList(1, true);
  await clock.advance(SETTLED_MS);
  etcd.setOutage(undefined);
  remove('1');
  await clock.advance(2 * SETTLED_MS);
  expect((await list.fetch(stop.signal)).machines).toEqual([machine('1')]);
});
