import { expect, test } from '@jest/globals';
import { TestEtcd, untilServing } from '../testing/index.ts';
import { SystemClock } from '../clock/index.ts';
import { answeringMembers } from './answering-members.ts';
import type { EtcdClient } from './client.ts';
import { EtcdError } from './errors.ts';
import { put } from './key-space.ts';

const signal = new AbortController().signal;
const value = new TextEncoder().encode('x');

/**
 * Repeats a call that etcd refuses only temporarily: a learner has not caught up, or members have just
 * changed.
 */
async function whenReady(work: () => Promise<unknown>): Promise<void> {
  const end = AbortSignal.timeout(10_000);
  for (;;) {
    try {
      return void (await work());
    } catch (error) {
      end.throwIfAborted();
      if (!(error instanceof EtcdError && error.retryable)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function createPair(etcd: TestEtcd) {
  const one = await etcd.startMember('one');
  const root = await etcd.connect('root', one.endpoint);
  await untilServing(root);
  const peerUrl = await etcd.freePeerUrl();
  const learner = await root.members.addLearner(peerUrl, { signal });
  const two = await etcd.startMember('two', { peerUrl, members: { one: one.peerUrl } });
  return { one, two, root, learner };
}

const names = async (root: EtcdClient): Promise<string[]> =>
  (await root.members.list({ signal }))
    .map(({ name, isLearner }) => `${name}${isLearner ? ' (learner)' : ''}`)
    .sort();

test('Members adds a learner, promotes it after it has caught up, and removes it', async () => {
  await using etcd = await TestEtcd.create();
  const one = await etcd.startMember('one');
  const root = await etcd.connect('root', one.endpoint);
  await untilServing(root);
  const peerUrl = await etcd.freePeerUrl();
  const learner = await root.members.addLearner(peerUrl, { signal });
  expect(learner).toMatchObject({ name: '', isLearner: true, peerUrls: [peerUrl] });
  await expect(root.members.addLearner(await etcd.freePeerUrl(), { signal })).rejects.toMatchObject({
    code: 'etcd-member-limit',
  });
  await expect(root.members.addLearner(peerUrl, { signal })).rejects.toMatchObject({ code: 'etcd-exists' });
  await expect(root.members.promote(learner.id, { signal })).rejects.toMatchObject({
    code: 'etcd-member-not-ready',
  });
  await etcd.startMember('two', { peerUrl, members: { one: one.peerUrl } });
  await whenReady(() => root.members.promote(learner.id, { signal }));
  expect(await names(root)).toEqual(['one', 'two']);
  await expect(root.members.promote(learner.id, { signal })).rejects.toMatchObject({ code: 'etcd-exists' });
  await whenReady(() => root.members.remove(learner.id, { signal }));
  expect(await names(root)).toEqual(['one']);
  await expect(root.members.remove(learner.id, { signal })).rejects.toMatchObject({
    code: 'etcd-member-unknown',
  });
}, 30_000);

test('EtcdClient reads from the other member when one freezes, and its watch reports the lost quorum', async () => {
  await using etcd = await TestEtcd.create();
  const { one, two, root, learner } = await createPair(etcd);
  await whenReady(() => root.members.promote(learner.id, { signal }));
  const both = await etcd.connect('root', two.endpoint, one.endpoint);
  await untilServing(both);
  await both.commit({ when: [], then: [put('q/a', value)] }, { signal });

  const events = both.watch('q/', { signal })[Symbol.asyncIterator]();
  expect((await events.next()).value).toMatchObject({ kind: 'relist' });
  const next = events.next();
  await one.freeze();
  expect((await next).value).toMatchObject({ kind: 'interrupted' });
  await expect(both.get('q/a', { signal, timeoutMs: 500 })).rejects.toMatchObject({
    code: 'etcd-unavailable',
  });
  // What this member has can still be read, without the others.
  const alone = await etcd.connect('root', two.endpoint);
  await expect(alone.list('q/', { signal, timeoutMs: 500 })).rejects.toMatchObject({
    code: 'etcd-unavailable',
  });
  expect((await alone.listLocal('q/', { signal })).entries).toMatchObject([{ key: 'q/a' }]);

  one.thaw();
  await untilServing(both);
  await whenReady(() => both.commit({ when: [], then: [put('q/b', value)] }, { signal }));
  for (;;) {
    const event = (await events.next()).value as { kind: string };
    if (event.kind === 'interrupted') continue;
    expect(event).toMatchObject({ kind: 'changes', changes: [{ kind: 'put', entry: { key: 'q/b' } }] });
    break;
  }
  await events.return?.();
}, 40_000);

test('EtcdClient reads from the other member when the first one is stopped', async () => {
  await using etcd = await TestEtcd.create();
  const one = await etcd.startMember('one');
  const dead = `127.0.0.1:${new URL(await etcd.freePeerUrl()).port}`;
  const client = await etcd.connect('root', dead, one.endpoint);
  await untilServing(await etcd.connect('root', one.endpoint));
  expect(await client.get('x', { signal })).toBeUndefined();
});

test('answeringMembers() names the members that answer: not one that is frozen, dead or without a leader', async () => {
  await using etcd = await TestEtcd.create();
  const { one, two, root, learner } = await createPair(etcd);
  await whenReady(() => root.members.promote(learner.id, { signal }));
  const peerUrl = await etcd.freePeerUrl();
  let third = 0n;
  await whenReady(async () => {
    third = (await root.members.addLearner(peerUrl, { signal })).id;
  });
  const members = { one: one.peerUrl, two: two.peerUrl };
  const three = await etcd.startMember('three', { peerUrl, members });
  await whenReady(() => root.members.promote(third, { signal }));
  const listed = await root.members.list({ signal });
  const { caPem: serverCaPem, ...identity } = await etcd.clientFiles('root');
  const answering = async (): Promise<string[]> => {
    const probe = { identity, serverCaPem, clock: new SystemClock(), key: 'k', timeoutMs: 1_000, signal };
    const ids = await answeringMembers(listed, probe);
    return listed
      .filter(({ id }) => ids.has(id))
      .map(({ name }) => name)
      .sort();
  };
  // Without its leader, a cluster answers nothing until it has elected another one.
  const until = async (names: readonly string[]): Promise<void> => {
    for (let round = 0; round < 20 && (await answering()).join() !== names.join(); round++);
    expect(await answering()).toEqual(names);
  };
  await until(['one', 'three', 'two']); // the third member has caught up
  await three.freeze();
  await until(['one', 'two']);
  three.thaw();
  await three.kill();
  await until(['one', 'two']);
  await two.kill();
  await until([]); // the last one answers, and has no leader
});
