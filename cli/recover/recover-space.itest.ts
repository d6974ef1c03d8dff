import { expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { EtcdClient, put, readMemberGauges } from '../../internal/etcd/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { MemoryFiles, TestEtcd, untilServing } from '../../internal/testing/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { freeSpace, readSpace, runRecoverSpace, type FullEtcd, type OpenEtcd } from './recover-space.ts';

const signal = new AbortController().signal;
const QUOTA_BYTES = 16 * 1024 * 1024;

/** An etcd cluster of one member with a small quota, and a client for `freeSpace`. */
async function createSmallEtcd(etcd: TestEtcd) {
  const member = await etcd.startMember('one', undefined, { quotaBytes: QUOTA_BYTES });
  const root = await etcd.connect('root', member.endpoint);
  await untilServing(root);
  const { caPem, ...identity } = await etcd.clientFiles('root');
  const connect = (endpoint: string) =>
    new EtcdClient({ endpoints: [endpoint], identity, serverCaPem: caPem, clock: new SystemClock() });
  const full: FullEtcd = { name: 'state', local: root, connect };
  const write = (key: string) =>
    root.commit({ when: [], then: [put(key, randomBytes(512 * 1024))] }, { signal });
  return { member, root, full, write };
}

async function fill(
  write: (key: string) => Promise<unknown>,
  keyOf: (i: number) => string,
): Promise<unknown> {
  for (let i = 0; i < 100; i++) {
    const error: unknown = await write(keyOf(i)).then(
      () => undefined,
      (cause: unknown) => cause,
    );
    if (error !== undefined) return error;
  }
  return undefined;
}

test('freeSpace() lets a full etcd accept writes again, also when it is repeated', async () => {
  await using etcd = await TestEtcd.create();
  const { member, full, write } = await createSmallEtcd(etcd);
  expect(await readMemberGauges(member.metricsUrl, signal)).toMatchObject({ isFull: false });
  // Many versions of one key fill the quota, as frequent status reports would.
  expect(await fill(write, () => 'status')).toMatchObject({ code: 'etcd-no-space' });
  expect(await readMemberGauges(member.metricsUrl, signal)).toMatchObject({ isFull: true });
  const before = await readSpace('state', full.local, signal);
  expect(before).toMatchObject({ quotaBytes: QUOTA_BYTES, members: 1, alarms: 1 });
  // Nothing was freed by that.
  expect(await write('status').catch((error: unknown) => error)).toMatchObject({ code: 'etcd-no-space' });
  const { members, cleared } = await freeSpace(full, signal);
  expect(cleared).toBe(1);
  expect(members).toMatchObject([{ etcd: 'state', member: 'one', quotaBytes: QUOTA_BYTES, failure: '' }]);
  expect(members[0]?.afterBytes).toBeLessThan(QUOTA_BYTES / 4);
  expect(await readMemberGauges(member.metricsUrl, signal)).toMatchObject({ isFull: false });
  await write('status');
  expect(await freeSpace(full, signal)).toMatchObject({ cleared: 0 });
  expect(await freeSpace(full, signal)).toMatchObject({ cleared: 0 });
}, 60_000);

test('freeSpace() continues after an interruption at any step', async () => {
  await using etcd = await TestEtcd.create();
  const { root, full, write } = await createSmallEtcd(etcd);
  const { revision } = await root.list('none/', { signal });
  expect(await fill(write, () => 'status')).toMatchObject({ code: 'etcd-no-space' });
  for (const stop of ['members', 'compact', 'alarms'] as const) {
    const killed = Promise.reject(new Error(`killed at ${stop}`));
    killed.catch(() => undefined);
    const local = {
      list: root.list.bind(root),
      compact: stop === 'compact' ? () => killed : root.compact.bind(root),
      members: stop === 'members' ? { list: () => killed } : root.members,
      maintenance:
        stop === 'alarms'
          ? { status: root.maintenance.status.bind(root.maintenance), alarms: () => killed }
          : root.maintenance,
    } as unknown as FullEtcd['local'];
    await expect(freeSpace({ ...full, local }, signal)).rejects.toThrow(`killed at ${stop}`);
  }
  expect(await freeSpace(full, signal)).toMatchObject({ cleared: 1 });
  await write('status');
  expect((await root.list('none/', { signal })).revision).toBeGreaterThan(revision);
}, 60_000);

test('freeSpace() deletes no current data, and reports a member that does not respond', async () => {
  await using etcd = await TestEtcd.create();
  const { root, full, write } = await createSmallEtcd(etcd);
  const stored: string[] = [];
  const remember = async (key: string): Promise<void> => {
    await write(key);
    stored.push(key);
  };
  expect(await fill(remember, (i) => `object ${i}`)).toMatchObject({ code: 'etcd-no-space' });
  await freeSpace(full, signal);
  expect(stored.length).toBeGreaterThan(10);
  for (const key of stored) expect((await root.get(key, { signal }))?.value.length).toBe(512 * 1024);
  const connect = () => full.connect('127.0.0.1:1');
  const [unreachable] = (await freeSpace({ ...full, connect }, signal)).members;
  expect(unreachable?.failure).not.toBe('');
}, 60_000);

test('runRecoverSpace() with --dry-run shows sizes, alarms and what is lost, and frees nothing', async () => {
  await using etcd = await TestEtcd.create();
  const { member, root, full, write } = await createSmallEtcd(etcd);
  expect(await fill(write, () => 'status')).toMatchObject({ code: 'etcd-no-space' });
  const usage = async () => {
    // etcd commits what was written before in batches of its own, which frees and uses pages, also new ones.
    const { inUseBytes: _, dbSizeBytes, ...space } = await readSpace('state', root, signal);
    const { revision } = await root.list('none/', { signal });
    const { compactRevision } = await root.maintenance.hash(revision, { signal });
    return { dbSizeBytes, kept: { ...space, revision, compactRevision } };
  };
  const before = await usage();
  const context = contextOf(new MemoryFiles(), '/w');
  const open: OpenEtcd = async () => () => full.connect(member.endpoint);
  expect(await runRecoverSpace(context, { dryRun: true, yes: false }, open)).toBe('ok');
  expect(context.host.answered).toMatchObject({
    dryRun: true,
    databases: [
      { etcd: 'state', alarms: 1, members: 1, quotaBytes: QUOTA_BYTES },
      { etcd: 'kubernetes', alarms: 1 },
    ],
    losses: [expect.stringContaining('history of both databases'), expect.stringContaining('defragmented')],
  });
  const [result] = context.host.records;
  expect(result).toMatchObject({
    text: expect.stringMatching(/Nothing was changed[^]*Consequences:\n {2}- the history/),
  });
  const after = await usage();
  expect(after.kept).toEqual(before.kept);
  expect(after.dbSizeBytes).toBeGreaterThanOrEqual(before.dbSizeBytes); // a defragmentation makes the file smaller
  expect(await write('status').catch((error: unknown) => error)).toMatchObject({ code: 'etcd-no-space' });
}, 60_000);
