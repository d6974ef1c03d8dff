import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  NodeStatusSchema,
  type EtcdContentsSchema,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { decideRecoveries, judgeRecoveries } from './judge-recoveries.ts';
import type { MemberProgress, Survey } from './recover-member.ts';

const member = (nodeId: string, raftIndex: bigint | undefined, hasLeader = false): MemberProgress => ({
  ...{ nodeId, endpoint: nodeId, raftIndex, hasLeader },
});
const survey = (own: bigint | undefined, other: bigint | undefined, isLed = false): Survey => ({
  ...{ own: member('a', own, isLed), others: [member('b', other)], epoch: 1, members: [] },
});

interface Case {
  readonly name: string;
  readonly state: Survey;
  readonly kubernetes: Survey;
  readonly lost: readonly string[];
  readonly refusals: RegExp | undefined;
  readonly losses?: RegExp;
}

const cases: readonly Case[] = [
  {
    name: 'refuses a recovery if the etcd of the cluster and the etcd of Kubernetes both have a leader',
    state: survey(9n, 9n, true),
    kubernetes: survey(9n, 9n, true),
    lost: [],
    refusals: /has a leader/,
  },
  {
    name: 'allows a recovery if only the Kubernetes etcd has lost its quorum',
    state: survey(9n, 9n, true),
    kubernetes: survey(9n, 8n),
    lost: ['kubernetes'],
    refusals: undefined,
  },
  {
    name: 'refuses if another machine has newer data in the only etcd without a quorum',
    state: survey(9n, 9n, true),
    kubernetes: survey(7n, 8n),
    lost: ['kubernetes'],
    refusals: /^kubernetes etcd: b is at raft index 8/,
  },
  {
    name: 'refuses if another machine has newer data in the state etcd',
    state: survey(7n, 8n),
    kubernetes: survey(9n, 8n),
    lost: ['state', 'kubernetes'],
    refusals: /^state etcd: b is at raft index 8/,
  },
  {
    name: 'allows a recovery and lists the losses if this machine has newer data in the state etcd, and another machine has newer data in the Kubernetes etcd',
    state: survey(9n, 8n),
    kubernetes: survey(7n, 8n),
    lost: ['state', 'kubernetes'],
    refusals: undefined,
    losses: /kubernetes etcd: b is at raft index 8/,
  },
  {
    name: 'refuses if both machines have the same data in the state etcd and another machine has newer data in the Kubernetes etcd',
    state: survey(9n, 9n),
    kubernetes: survey(7n, 8n),
    lost: ['state', 'kubernetes'],
    refusals: /^kubernetes etcd: b is at raft index 8/,
  },
  {
    name: 'allows a recovery and lists possible losses if no other member answers',
    state: survey(9n, undefined),
    kubernetes: survey(9n, undefined),
    lost: ['state', 'kubernetes'],
    refusals: undefined,
    losses: /state etcd: all changes that only b has.*kubernetes etcd: all changes that only b has/,
  },
];

test.each(cases)('judgeRecoveries() $name', ({ state, kubernetes, lost, refusals, losses }) => {
  const verdict = judgeRecoveries({ state, kubernetes });
  expect(verdict.lost).toEqual(lost);
  if (refusals === undefined) expect(verdict.refusals).toEqual([]);
  else expect(verdict.refusals.join()).toMatch(refusals);
  if (losses !== undefined) expect(verdict.losses.join()).toMatch(losses);
});

describe('a member that was found to differ', () => {
  const differs = { agreeing: ['b', 'c'], differing: ['a'], comparedMs: 1_800_000_000_000n };
  const agrees = { agreeing: ['a', 'b', 'c'], comparedMs: 1_800_000_100_000n };
  const noMajority = { differing: ['a', 'b', 'c'], comparedMs: 1_800_000_000_000n };
  /** The last reports of the control planes. */
  const reported = (...reports: MessageInitShape<typeof EtcdContentsSchema>[]): Survey => ({
    ...survey(9n, undefined),
    members: ['a', 'b', 'c'].map((nodeId, at) => ({
      ...{
        version: 1,
        nodeId,
        name: `name-${nodeId}`,
        pubKey: 'a2V5',
        state: 'UP',
        createdMs: 1,
        labels: {},
      },
      ...{ roles: ['ConsensusMember', 'KubernetesController'], isAlive: true },
      status: create(NodeStatusSchema, reports[at] && { etcdContents: reports[at] }),
    })),
  });

  test.each([
    {
      name: 'differs',
      state: reported({ kubernetes: differs }),
      want: [/^kubernetes etcd: .* name-b, name-c at 2027/],
    },
    {
      name: 'differs in both',
      state: reported({ state: differs, kubernetes: differs }),
      want: [/^state/, /^kubern/],
    },
    { name: 'agrees since', state: reported({ state: differs }, { state: agrees }), want: [] },
    { name: 'is as good as the others', state: reported({ state: noMajority }), want: [] },
    {
      name: 'is named at a time that does not exist',
      state: reported({ state: { ...differs, comparedMs: 2n ** 62n } }),
      want: [],
    },
    { name: 'is on no record', state: reported(), want: [] },
    {
      name: 'differs in an etcd that keeps its quorum',
      state: { ...reported({ state: differs }), own: member('a', 9n, true) },
      want: [],
    },
  ])('is not recovered without consent if it $name', ({ state, want }) => {
    const { damage, refusals } = judgeRecoveries({ state, kubernetes: survey(9n, undefined) });
    expect(damage).toEqual(want.map((each) => expect.stringMatching(each)));
    expect(refusals).toEqual([]);
  });

  test('is recovered with consent, and whatever else refuses a recovery still refuses it', () => {
    const surveys = { state: reported({ state: differs }), kubernetes: survey(9n, undefined) };
    expect(() => decideRecoveries(surveys, false)).toThrow(/other content than name-b, name-c/);
    expect(decideRecoveries(surveys, true)).toEqual(['state', 'kubernetes']);
    const older = { ...surveys, state: { ...surveys.state, others: [member('b', 10n)] } };
    expect(() => decideRecoveries(older, true)).toThrow(/b is at raft index 10/);
  });
});
