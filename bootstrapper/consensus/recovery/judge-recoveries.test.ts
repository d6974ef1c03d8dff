import { expect, test } from '@jest/globals';
import { judgeRecoveries } from './judge-recoveries.ts';
import type { MemberProgress, Survey } from './recover-member.ts';

const member = (nodeId: string, raftIndex: bigint | undefined, hasLeader = false): MemberProgress => ({
  ...{ nodeId, endpoint: nodeId, raftIndex, hasLeader },
});
const survey = (own: bigint | undefined, other: bigint | undefined, isLed = false): Survey => ({
  ...{ own: member('a', own, isLed), others: [member('b', other)], epoch: 1 },
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
