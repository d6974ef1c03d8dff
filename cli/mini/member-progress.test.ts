import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { JoinSchema, JoinState } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeHealth, NodeSchema, Runnable_State } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { KubeNode } from '../../internal/kube/index.ts';
import {
  describeWaiting,
  memberProgress,
  withUnreachableNote,
  type MemberProgress,
  type ClusterSnapshot,
} from './member-progress.ts';

const machine = { name: 'n2', identity: 'tpm-ek:aa' };
const nothing: ClusterSnapshot = { joins: [], nodes: [], kubeNodes: [] };

const joined = (state: JoinState): ClusterSnapshot => ({
  ...nothing,
  joins: [
    create(JoinSchema, { joinId: 'id', identity: 'tpm-ek:aa', state, code: 'join-x', message: 'because' }),
    create(JoinSchema, { identity: 'tpm-ek:bb', state: JoinState.REFUSED }),
  ],
});

const kubelet = (status: 'True' | 'False', message = ''): KubeNode => ({
  metadata: { name: 'n2', namespace: '', creationTimestamp: '', labels: {} },
  status: {
    conditions: [{ type: 'Ready', status, reason: '', message }],
    addresses: [],
    nodeInfo: { kubeletVersion: '' },
  },
});

const member = (health: NodeHealth, waitsFor = ''): ClusterSnapshot => ({
  ...nothing,
  nodes: [
    create(NodeSchema, {
      name: 'n2',
      health,
      status: {
        runnables: [
          { path: 'components', state: Runnable_State.HEALTHY, idleBecause: 'nothing to fetch' },
          { path: 'kubernetes.start', state: Runnable_State.NEW, idleBecause: waitsFor },
        ],
      },
    }),
  ],
});

describe('memberProgress()', () => {
  test.each<{ name: string; given: ClusterSnapshot; want: MemberProgress }>([
    {
      name: 'a machine that nobody has heard of',
      given: nothing,
      want: { kind: 'waiting', text: 'has not asked the cluster yet' },
    },
    {
      name: 'one that waits for a decision',
      given: joined(JoinState.PENDING),
      want: { kind: 'pending', text: 'waits: join-x because', joinId: 'id' },
    },
    {
      name: 'one that waits for its turn',
      given: joined(JoinState.APPROVED),
      want: { kind: 'waiting', text: expect.stringContaining('because') as unknown as string },
    },
    {
      name: 'one that was refused',
      given: joined(JoinState.REFUSED),
      want: { kind: 'refused', code: 'join-x', message: 'because' },
    },
    {
      name: 'a member whose agent waits for something',
      given: member(NodeHealth.HEALTHY, 'the API server'),
      want: { kind: 'waiting', text: 'kubernetes: the API server' },
    },
    {
      name: 'a member whose kubelet is not Ready',
      given: { ...member(NodeHealth.HEALTHY), kubeNodes: [kubelet('False', 'cni')] },
      want: { kind: 'waiting', text: 'kubelet: cni' },
    },
    {
      name: 'a Ready kubelet of a node that does not beat',
      given: { ...member(NodeHealth.UNKNOWN), kubeNodes: [kubelet('True')] },
      want: { kind: 'waiting', text: 'its kubelet is Ready; the curator has not heard it yet' },
    },
    {
      name: 'one that is all there',
      given: { ...member(NodeHealth.HEALTHY), kubeNodes: [kubelet('True')] },
      want: { kind: 'ready' },
    },
  ])('$name', ({ given, want }) => {
    expect(memberProgress(machine, given)).toEqual(want);
  });
});

test('describeWaiting() names each machine and what it waits for', () => {
  const waiting = new Map([['n2', memberProgress(machine, joined(JoinState.PENDING))]]);
  expect(describeWaiting(waiting, 65_000)).toBe('n2 waits: join-x because (for 1m5s)');
});

describe('unheard()', () => {
  const waiting: MemberProgress = { kind: 'waiting', text: 'has not asked the cluster yet' };

  test('says why the cluster could not be asked beside what is known', () => {
    expect(withUnreachableNote(waiting, 'reaching 198.18.0.11: refused')).toEqual({
      kind: 'waiting',
      text: 'has not asked the cluster yet, as far as is known; asking the cluster failed: reaching 198.18.0.11: refused',
    });
  });

  test.each<{ name: string; progress: MemberProgress; silence: string | undefined }>([
    { name: 'the cluster has answered', progress: waiting, silence: undefined },
    { name: 'the machine is in', progress: { kind: 'ready' }, silence: 'x' },
    { name: 'the machine was refused', progress: { kind: 'refused', code: 'c', message: 'm' }, silence: 'x' },
  ])('adds nothing when $name', ({ progress, silence }) => {
    expect(withUnreachableNote(progress, silence)).toBe(progress);
  });
});
