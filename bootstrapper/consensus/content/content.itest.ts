import { afterEach, expect, test } from '@jest/globals';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SystemClock } from '../../../internal/clock/index.ts';
import { put, type EtcdClient } from '../../../internal/etcd/index.ts';
import { closeOpened } from '../../../internal/testing/index.ts';
import { STATE_ETCD } from '../etcd-instances.ts';
import { createMembers, shareKeys, type TestMember } from '../fake-member.ts';
import { leaveEtcd } from '../membership/leave-etcd.ts';
import { connectAsRoot } from '../unit/run-etcd.ts';
import { compareContent } from './compare-content.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
afterEach(closeOpened);

/** Stands once in the value of a key. */
const PLANTED = 'the-value-that-a-disk-changes';
const CHANGED = 'the-value-that-a-disk-CHANGES';

/** Compares on the control plane of this member. */
async function compare(member: TestMember, own: EtcdClient) {
  const { memberId: ownId } = await own.maintenance.status({ signal });
  const voters = (await own.members.list({ signal })).filter(({ isLearner }) => !isLearner);
  const connect = (endpoint: string) => connectAsRoot(member.portsOf(), member.config.layout, [endpoint]);
  const found = await compareContent({ own, ownId, voters, connect, clock }, signal);
  return { ...found, agreeing: found.agreeing.toSorted() };
}

/** Changes the planted value in the database of a stopped member, wherever a page has it. */
async function damage({ config }: TestMember): Promise<void> {
  const path = join(config.layout.data, 'member/snap/db');
  const bytes = await readFile(path);
  for (let at = bytes.indexOf(PLANTED); at !== -1; at = bytes.indexOf(PLANTED, at + 1))
    bytes.write(CHANGED, at);
  await writeFile(path, bytes);
}

/** Waits until the database file has the planted value: etcd writes it some time after the log. */
async function untilStored({ config }: TestMember): Promise<void> {
  const path = join(config.layout.data, 'member/snap/db');
  while (!(await readFile(path)).includes(PLANTED)) await clock.sleep(20, signal);
}

/** Starts the process of a member as it is, without writing its configuration. */
async function startProcess(member: TestMember, isChecked: boolean): Promise<void> {
  const { configFile } = member.config.layout;
  const config = JSON.parse(await readFile(configFile, 'utf8')) as Record<string, unknown>;
  await writeFile(
    configFile,
    JSON.stringify({ ...config, 'feature-gates': `InitialCorruptCheck=${isChecked}` }),
  );
  await member.units.start(STATE_ETCD.unit);
}

async function untilEnded({ units }: TestMember): Promise<void> {
  while ((await units.status(STATE_ETCD.unit)).active === 'active') await clock.sleep(50, signal);
}

const write = (etcd: EtcdClient, key: string, value: string) =>
  etcd.commit({ when: [], then: [put(key, new TextEncoder().encode(value))] }, { signal });

/** Three members with the planted value in their databases. */
async function startMembers() {
  const [first, second, third] = await createMembers(3);
  const one = await first.start();
  await write(one.admin, 'planted', PLANTED);
  for (const member of [second, third]) {
    await shareKeys(first, member);
    await member.start();
    await untilStored(member);
  }
  return { first, second, third, one };
}

test('compareContent() names a member whose disk has changed a value; that member does not start with the initial check, and has the same content after it left and joined again', async () => {
  const { first, second, one } = await startMembers();
  const { revision } = await one.admin.maintenance.status({ signal });
  const all = ['node-1', 'node-2', 'node-3'];
  const agree = { agreeing: all, differing: [], notCompared: [] };
  expect(await compare(first, one.admin)).toEqual(agree);
  // A member answers with the hash that it has computed during a compaction if there was no write since.
  await one.admin.compact(revision, { signal });
  expect(await compare(first, one.admin)).toEqual(agree);
  await write(one.admin, 'after', 'x');
  expect(await compare(first, one.admin)).toEqual(agree);

  await second.kill();
  expect(await compare(first, one.admin)).toEqual({
    agreeing: ['node-1', 'node-3'],
    differing: [],
    notCompared: ['node-2'],
  });
  await damage(second);
  await startProcess(second, false);
  const damaged = { agreeing: ['node-1', 'node-3'], differing: ['node-2'], notCompared: [] };
  let found = await compare(first, one.admin);
  while (found.notCompared.length > 0) found = await compare(first, one.admin);
  expect(found).toEqual(damaged);
  // The damaged member sees the same majority.
  using two = await connectAsRoot(second.portsOf(), second.config.layout, [
    `127.0.0.1:${second.config.ports.client}`,
  ]);
  expect(await compare(second, two)).toMatchObject({ differing: ['node-2'] });

  // etcd writes its database up to 100 ms after an entry of the log. A member that is killed before starts with an older
  // compaction than the others, and the initial check compares no members whose compactions differ.
  await second.units.terminate(STATE_ETCD.unit);
  await startProcess(second, true);
  await untilEnded(second);

  await leaveEtcd(second.portsOf(), { ...second.config, createsCluster: false }, signal);
  await shareKeys(first, second);
  await second.start();
  expect(await compare(first, one.admin)).toEqual(agree);
}, 120_000);

test('a good member does not start with the initial check beside a damaged one; when that one is off it starts, and the damaged one can leave', async () => {
  const { first, second, third, one } = await startMembers();
  const untilCompared = async (count: number) => {
    for (;;) {
      const { agreeing, differing } = await compare(first, one.admin);
      if (agreeing.length + differing.length === count) return { agreeing, differing };
    }
  };
  await second.kill();
  await damage(second);
  await startProcess(second, false);
  await untilCompared(3);
  await third.kill();
  await startProcess(third, true);
  await untilEnded(third);
  const leaving = { ...second.config, createsCluster: false };
  await expect(leaveEtcd(second.portsOf(), leaving, signal)).rejects.toMatchObject({
    code: 'consensus-quorum',
  });

  await second.kill();
  await startProcess(third, true);
  expect(await untilCompared(2)).toEqual({ agreeing: ['node-1', 'node-3'], differing: [] });
  await startProcess(second, true);
  await untilEnded(second);
  await leaveEtcd(second.portsOf(), leaving, signal);
  await write(one.admin, 'after', 'x');
}, 120_000);
