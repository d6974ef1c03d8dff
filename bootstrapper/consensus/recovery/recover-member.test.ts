import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { newestEpochOf, readEpoch, writeEpoch } from './epoch.ts';
import { consensusLayout } from '../consensus-layout.ts';
import { judgeRecovery, type MemberProgress } from './recover-member.ts';

const member = (nodeId: string, raftIndex: bigint | undefined, hasLeader = false): MemberProgress => ({
  nodeId,
  endpoint: `${nodeId}:2379`,
  raftIndex,
  hasLeader,
});

describe('judgeRecovery()', () => {
  const cases: {
    name: string;
    own: MemberProgress;
    others: MemberProgress[];
    refusal: RegExp | undefined;
  }[] = [
    {
      name: 'allows a recovery from the only member that answers',
      own: member('a', 7n),
      others: [member('b', undefined), member('c', undefined)],
      refusal: undefined,
    },
    {
      name: 'allows a recovery from the member with the highest raft index',
      own: member('a', 7n),
      others: [member('b', 7n)],
      refusal: undefined,
    },
    {
      name: 'refuses a recovery from a member with a lower raft index',
      own: member('a', 7n),
      others: [member('b', 8n)],
      refusal: /b is at raft index 8, this member at 7/,
    },
    {
      name: 'refuses every recovery while etcd has a leader',
      own: member('a', 7n),
      others: [member('b', 8n, true)],
      refusal: /its quorum is not lost/,
    },
    {
      name: 'allows a recovery from a member that does not answer, whose progress cannot be compared yet',
      own: member('a', undefined),
      others: [member('b', 5n)],
      refusal: undefined,
    },
  ];
  test.each(cases)('$name', ({ own, others, refusal }) => {
    const { refusals } = judgeRecovery({ own, others, epoch: 1, members: [] });
    if (refusal === undefined) expect(refusals).toEqual([]);
    else expect(refusals.join()).toMatch(refusal);
  });

  test('names the members that did not answer', () => {
    const { losses } = judgeRecovery({
      own: member('a', 7n),
      others: [member('b', undefined), member('c', 5n)],
      epoch: 1,
      members: [],
    });
    expect(losses).toHaveLength(2);
    expect(losses[0]).toContain('after raft index 7');
    expect(losses[1]).toContain('only b has');
  });
});

test('newestEpochOf() lists the members that serve the newest epoch, and no members if none answered', () => {
  const answers = [
    { endpoint: 'a', epoch: 1 },
    { endpoint: 'b', epoch: 2 },
    { endpoint: 'c', epoch: 0 },
    { endpoint: 'd', epoch: 2 },
  ];
  expect(newestEpochOf(answers)).toEqual({ epoch: 2, endpoints: ['b', 'd'] });
  expect(newestEpochOf([{ endpoint: 'c', epoch: 0 }])).toEqual({ epoch: 0, endpoints: [] });
  expect(newestEpochOf([])).toEqual({ epoch: 0, endpoints: [] });
});

describe('the stored epoch of the data of etcd', () => {
  const layout = consensusLayout('/var/lib/cluster', 'state');

  test('readEpoch() returns 1 before writeEpoch(), and the written value afterwards', async () => {
    const files = new MemoryFiles();
    expect(await readEpoch(files, layout)).toBe(1);
    await files.makeDirectory(layout.root);
    await writeEpoch(files, layout, 3);
    expect(await readEpoch(files, layout)).toBe(3);
  });

  test.each(['', '0', '-1', 'two', '1e99'])('readEpoch() refuses the content %j', async (text) => {
    const files = new MemoryFiles();
    await files.makeDirectory(layout.root);
    await files.writeAtomic(layout.epochFile, text);
    await expect(readEpoch(files, layout)).rejects.toThrow(RangeError);
  });
});
