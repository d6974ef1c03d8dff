import { expect, test } from '@jest/globals';
import { FakeClock } from '../../../internal/testing/index.ts';
import { compareContent } from './compare-content.ts';
import { FakeHashes } from './fake-hashes.ts';

/** Compares while the fake clock advances. */
async function compare(hashes: FakeHashes, signal = new AbortController().signal) {
  const clock = new FakeClock();
  const { own, connect, listed: voters } = hashes;
  const comparing = compareContent({ own, ownId: 1n, voters, connect, clock }, signal);
  comparing.catch(() => undefined);
  await clock.advance(60_000);
  return comparing;
}

test('compareContent() asks one member after the other for the hash at the revision of the own member, and closes its connections', async () => {
  const hashes = new FakeHashes(7, 8, 7);
  let most = 0;
  hashes.onAsked = () => (most = Math.max(most, hashes.open));
  expect(await compare(hashes)).toEqual({
    agreeing: ['id-1', 'id-3'],
    differing: ['id-2'],
    notCompared: [],
  });
  expect(hashes.asked).toEqual(['1 at 9', '2 at 9', '3 at 9']);
  expect([most, hashes.open]).toEqual([1, 0]);
});

test('compareContent() asks a member that lags behind again, and only that one', async () => {
  const hashes = new FakeHashes(7, 7, 7);
  hashes.members[1]!.refusals = 2;
  expect(await compare(hashes)).toMatchObject({ agreeing: ['id-1', 'id-2', 'id-3'] });
  expect(hashes.asked).toEqual(['1 at 9', '2 at 9', '2 at 9', '2 at 9', '3 at 9']);
});

test('compareContent() gives up a member that never answers, and compares the others', async () => {
  const hashes = new FakeHashes(7, 7, 7);
  hashes.members[1]!.refusals = Infinity;
  expect(await compare(hashes)).toEqual({
    agreeing: ['id-1', 'id-3'],
    differing: [],
    notCompared: ['id-2'],
  });
  expect(hashes.asked.filter((each) => each.startsWith('2'))).toHaveLength(3);
  expect(hashes.open).toBe(0);
});

test('compareContent() compares again while a member was compacted at another revision', async () => {
  const hashes = new FakeHashes(7, 99, 7);
  hashes.members[1]!.compactRevision = 2n;
  let rounds = 0;
  hashes.onAsked = (index) => {
    if (index !== 0 || ++rounds !== 2) return;
    hashes.members[1] = { hash: 7, compactRevision: 3n, refusals: 0 };
  };
  expect(await compare(hashes)).toEqual({
    agreeing: ['id-1', 'id-2', 'id-3'],
    differing: [],
    notCompared: [],
  });
  expect(rounds).toBe(2);
});

test.each([
  { name: 'was compacted at another revision', change: { compactRevision: 2n } },
  { name: 'answers with the hash at another revision', change: { hashRevision: 8n } },
])('compareContent() never takes a member for different that $name', async ({ change }) => {
  const hashes = new FakeHashes(7, 99, 7);
  Object.assign(hashes.members[1]!, change);
  expect(await compare(hashes)).toEqual({
    agreeing: ['id-1', 'id-3'],
    differing: [],
    notCompared: ['id-2'],
  });
  expect(hashes.asked.filter((each) => each.startsWith('1'))).toHaveLength(3);
});

test('compareContent() ends when its signal fires', async () => {
  const hashes = new FakeHashes(7, 7);
  hashes.members[1]!.refusals = Infinity;
  const stop = new AbortController();
  hashes.onAsked = (index) => {
    if (index === 1) stop.abort(new Error('stopped'));
  };
  await expect(compare(hashes, stop.signal)).rejects.toThrow('stopped');
  expect(hashes.asked).toHaveLength(2);
});
