import { describe, expect, test } from '@jest/globals';
import { Runnable_State } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { JoinView } from '../../nodes/index.ts';
import { fakeNode, fakeObservations, NOW_MS, observed } from './fake-observations.ts';
import { HistoryRecorder } from './history.ts';
import type { ObservedNode } from './observations.ts';
import { judge } from './snapshot.ts';

const failure = (isRefused: boolean) => ({ text: 'why', sinceMs: NOW_MS, isRefused });
const withNodes = (...nodes: readonly ObservedNode[]) =>
  fakeObservations(3, { nodes: { value: nodes, readMs: NOW_MS } });

describe('judge()', () => {
  const healthy = fakeObservations(3);
  test.each([
    { name: 'a cluster without problems', seen: healthy, want: { tone: 'good', verdict: 'healthy' } },
    {
      name: 'before the first answer',
      seen: { ...healthy, nodes: {} },
      want: { tone: 'idle', verdict: 'reading' },
    },
    {
      name: 'no curator answers any longer',
      seen: { ...healthy, cluster: { ...healthy.cluster, failure: failure(false) } },
      want: { tone: 'bad', verdict: 'not reached: old data' },
    },
    {
      name: 'no curator has answered',
      seen: { ...healthy, cluster: { failure: failure(false) }, nodes: {} },
      want: { tone: 'bad', verdict: 'not reached' },
    },
    {
      name: 'curators answer, but have no quorum',
      seen: { ...healthy, nodes: { failure: { ...failure(false), isQuorumLost: true } } },
      want: { tone: 'bad', verdict: 'quorum lost' },
    },
    {
      name: 'the quorum is lost after the first answer',
      seen: {
        ...healthy,
        cluster: { ...healthy.cluster, failure: { ...failure(false), isQuorumLost: true } },
      },
      want: { tone: 'bad', verdict: 'quorum lost: old data' },
    },
    {
      name: 'the caller was removed',
      seen: { ...healthy, cluster: { failure: failure(true) }, nodes: { failure: failure(true) } },
      want: { tone: 'bad', verdict: 'refused' },
    },
    {
      name: 'metrics fail',
      seen: { ...healthy, usage: { failure: failure(false) } },
      want: { tone: 'warning', verdict: 'healthy, but not all sources answer' },
    },
    {
      name: 'the role allows no audit log',
      seen: { ...healthy, decisions: { failure: failure(true) } },
      want: { tone: 'good', verdict: 'healthy' },
    },
  ])('tells the verdict: $name', ({ seen, want }) => {
    expect(judge(seen, NOW_MS)).toMatchObject(want);
  });

  test('a runnable that starts for over a minute is stuck, without a new report of its agent', () => {
    const node = fakeNode(0);
    Object.assign(node.status!.runnables[2]!, { state: Runnable_State.NEW, sinceMs: BigInt(NOW_MS) });
    const seen = withNodes(observed(node));
    expect(judge(seen, NOW_MS).nodes[0]).toMatchObject({ phase: 'starting' });
    expect(judge(seen, NOW_MS + 61_000).nodes[0]).toMatchObject({ phase: 'stuck', tone: 'bad' });
  });

  test('lists machines that ask to join with what they wait for, and none that is a member', () => {
    const applicant = {
      ...{
        joinId: 'node-new',
        state: 'pending',
        hostname: 'machine-9',
        name: '',
        wantedName: '',
        address: '',
      },
      ...{
        code: 'join-awaiting-approval',
        message: 'nobody has approved it',
        roles: [],
        firstSeenMs: NOW_MS,
      },
    } as unknown as JoinView;
    const member = { ...applicant, joinId: fakeNode(0).nodeId };
    const { nodes } = judge(
      fakeObservations(1, { joins: { value: [applicant, member], readMs: NOW_MS } }),
      NOW_MS,
    );
    expect(nodes.map(({ name, phase, waitsFor }) => [name, phase, waitsFor])).toEqual([
      ['n1', 'running', ''],
      ['machine-9', 'asks to join', 'join-awaiting-approval: nobody has approved it'],
    ]);
  });

  test('lists certificates of all nodes by their end', () => {
    const { certificates } = judge(fakeObservations(2), NOW_MS);
    expect(certificates.map(({ node, name }) => `${node} ${name}`)).toEqual([
      'n1 credentials/node.crt',
      'n2 credentials/node.crt',
      'n1 kubelet client',
      'n2 kubelet client',
    ]);
  });
});

test('HistoryRecorder.addHealth() keeps changes only, and forgets nodes that are gone', () => {
  const history = new HistoryRecorder();
  history.addHealth(
    [
      { name: 'n1', health: 'healthy' },
      { name: 'n2', health: 'healthy' },
    ],
    1,
  );
  history.addHealth([{ name: 'n1', health: 'healthy' }], 2);
  history.addHealth([{ name: 'n1', health: 'silent' }], 3);
  expect([...history.heartbeats]).toEqual([
    [
      'n1',
      [
        { atMs: 1, health: 'healthy' },
        { atMs: 3, health: 'silent' },
      ],
    ],
  ]);
});
