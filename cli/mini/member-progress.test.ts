import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { JoinSchema, JoinState } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeHealth, NodeSchema, Runnable_State } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { KubeNode, KubePod } from '../../internal/kube/index.ts';
import type { MachineKind } from './machine-plan.ts';
import {
  describeWaiting,
  memberProgress,
  withUnreachableNote,
  type MemberProgress,
  type ClusterSnapshot,
} from './member-progress.ts';

const machine = { name: 'n2', identity: 'tpm-ek:aa', roles: ['worker'] } as const;
const nothing: ClusterSnapshot = { joins: [], nodes: [], kubeNodes: [], controlPlanePods: [] };

const joined = (state: JoinState): ClusterSnapshot => ({
  ...nothing,
  joins: [
    create(JoinSchema, { joinId: 'id', identity: 'tpm-ek:aa', state, code: 'join-x', message: 'because' }),
    create(JoinSchema, { identity: 'tpm-ek:bb', state: JoinState.REFUSED }),
  ],
});

const kubelet = (status: 'True' | 'False', message = ''): KubeNode => ({
  metadata: { name: 'n2', namespace: '', creationTimestamp: '', labels: {} },
  spec: { unschedulable: false },
  status: {
    conditions: [{ type: 'Ready', status, reason: '', message }],
    addresses: [],
    nodeInfo: { kubeletVersion: '' },
  },
});

const apiServer = (nodeName: string, ready: 'True' | 'False'): KubePod => ({
  metadata: {
    name: `kube-apiserver-${nodeName}`,
    namespace: 'kube-system',
    creationTimestamp: '',
    labels: {},
  },
  spec: { nodeName, volumes: [] },
  status: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: ready, reason: '', message: '' }],
    initContainerStatuses: [],
    containerStatuses: [{ name: 'kube-apiserver', ready: ready === 'True', restartCount: 0, state: {} }],
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
  test.each<{ name: string; given: ClusterSnapshot; want: MemberProgress; roles?: readonly MachineKind[] }>([
    {
      name: 'waiting” for a machine without a join request',
      given: nothing,
      want: { kind: 'waiting', text: 'has not contacted the cluster yet' },
    },
    {
      name: 'pending” for a machine that waits for approval',
      given: joined(JoinState.PENDING),
      want: { kind: 'pending', text: 'waiting for approval: join-x because', joinId: 'id' },
    },
    {
      name: 'waiting” for an admitted control plane while another one is joining',
      given: joined(JoinState.APPROVED),
      want: { kind: 'waiting', text: expect.stringContaining('because') as unknown as string },
    },
    {
      name: 'refused” for a refused machine',
      given: joined(JoinState.REFUSED),
      want: { kind: 'refused', code: 'join-x', message: 'because' },
    },
    {
      name: 'waiting” for a node with a pending component',
      given: member(NodeHealth.HEALTHY, 'the API server'),
      want: { kind: 'waiting', text: 'kubernetes: the API server' },
    },
    {
      name: 'waiting” for a node whose kubelet is not Ready',
      given: { ...member(NodeHealth.HEALTHY), kubeNodes: [kubelet('False', 'cni')] },
      want: { kind: 'waiting', text: 'kubelet: cni' },
    },
    {
      name: 'waiting” for a Ready kubelet whose agent has not reported',
      given: { ...member(NodeHealth.UNKNOWN), kubeNodes: [kubelet('True')] },
      want: { kind: 'waiting', text: 'kubelet is Ready; the agent has not reported yet' },
    },
    {
      name: 'waiting” for a Ready node whose API server is not ready',
      roles: ['control-plane'],
      given: {
        ...member(NodeHealth.HEALTHY),
        kubeNodes: [kubelet('True')],
        controlPlanePods: [apiServer('n1', 'True'), apiServer('n2', 'False')],
      },
      want: { kind: 'waiting', text: 'pod kube-apiserver-n2: kube-apiserver not ready' },
    },
    {
      name: 'ready” for a healthy node with a Ready kubelet, whatever the pods of other nodes do',
      roles: ['control-plane'],
      given: {
        ...member(NodeHealth.HEALTHY),
        kubeNodes: [kubelet('True')],
        controlPlanePods: [apiServer('n1', 'False'), apiServer('n2', 'True')],
      },
      want: { kind: 'ready' },
    },
  ])('is “$name', ({ given, want, roles = ['worker'] }) => {
    expect(memberProgress({ ...machine, roles }, given)).toEqual(want);
  });
});

test('describeWaiting() lists each machine with what it waits for', () => {
  const waiting = new Map([['n2', memberProgress(machine, joined(JoinState.PENDING))]]);
  expect(describeWaiting(waiting, 65_000)).toBe('n2 waiting for approval: join-x because (for 1m5s)');
});

test('memberProgress() is “waiting” for a control plane none of whose pods is listed, as when the list fails', () => {
  const seen = { ...member(NodeHealth.HEALTHY), kubeNodes: [kubelet('True')] };
  const controlPlane = { ...machine, roles: ['control-plane'] } as const;
  expect(memberProgress(controlPlane, seen)).toEqual({
    kind: 'waiting',
    text: 'no pod of its control plane is listed yet',
  });
  expect(memberProgress(controlPlane, { ...seen, controlPlanePods: [apiServer('n2', 'True')] })).toEqual({
    kind: 'ready',
  });
});

describe('withUnreachableNote()', () => {
  const waiting: MemberProgress = { kind: 'waiting', text: 'has not contacted the cluster yet' };

  test('adds why the cluster could not be read', () => {
    expect(withUnreachableNote(waiting, 'reaching 198.18.0.11: refused')).toEqual({
      kind: 'waiting',
      text: 'has not contacted the cluster yet (last known state; cluster unreachable: reaching 198.18.0.11: refused)',
    });
  });

  test.each<{ name: string; progress: MemberProgress; unreachable: string | undefined }>([
    { name: 'the cluster was read', progress: waiting, unreachable: undefined },
    { name: 'the machine is ready', progress: { kind: 'ready' }, unreachable: 'x' },
    {
      name: 'the machine was refused',
      progress: { kind: 'refused', code: 'c', message: 'm' },
      unreachable: 'x',
    },
  ])('adds nothing when $name', ({ progress, unreachable }) => {
    expect(withUnreachableNote(progress, unreachable)).toBe(progress);
  });
});
