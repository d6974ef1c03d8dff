import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { NodeRole } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  ProbeReportSchema,
  Trial_Outcome as Outcome,
  type TrialSchema,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { describeSharedKeys, triedFrom } from './removal-trials.ts';

const { REFUSED, LET_IN, UNPROVED } = Outcome;

/** "n1 etcd-client node", and what came of it. */
function reportOf(rows: Readonly<Record<string, Outcome>>, away: readonly string[] = []) {
  const trials = Object.entries(rows).map(([row, outcome]): MessageInitShape<typeof TrialSchema> => {
    const [node = '', door = '', paper = ''] = row.split(' ');
    return { node, door, paper, outcome, said: 'so' };
  });
  return create(ProbeReportSchema, { trials, away: [...away] });
}

describe('triedFrom()', () => {
  test("a door that refuses all of the node's own papers is one proof", () => {
    const { proofs } = triedFrom(
      reportOf({
        'n1 etcd-peer node': REFUSED,
        'n1 etcd-peer kubelet': REFUSED,
        'n1 etcd-peer etcd-peer': LET_IN,
      }),
      true,
    );
    expect(proofs).toEqual([
      {
        what: "its papers at etcd's peer port of n1",
        ok: true,
        actual: 'node refused (so), kubelet refused (so)',
      },
    ]);
  });

  test.each([
    { name: 'let in', outcome: LET_IN, word: 'kubelet is let in (so)' },
    { name: 'not proved', outcome: UNPROVED, word: 'kubelet not proved (so)' },
    { name: 'of a kind that is not known here', outcome: 9 as Outcome, word: 'kubelet not proved (so)' },
  ])('one paper that is $name is no proof, and is what is told', ({ outcome, word }) => {
    const { proofs } = triedFrom(
      reportOf({ 'n1 api-server node': REFUSED, 'n1 api-server kubelet': outcome }),
      false,
    );
    expect(proofs).toEqual([{ what: 'its papers at the API server of n1', ok: false, actual: word }]);
  });

  test("a client that passes for a peer is no shared key's fault, and no proof", () => {
    const { proofs, sharedKeys } = triedFrom(reportOf({ 'n1 etcd-peer etcd-client': LET_IN }), true);
    expect(proofs).toMatchObject([{ ok: false }]);
    expect(sharedKeys[0]).not.toHaveProperty('tried');
  });

  test('nobody asked is nothing proved; who is away is named', () => {
    expect(triedFrom(reportOf({}, ['n3']), false).proofs).toMatchObject([
      { ok: false, actual: 'no door was found' },
      { what: 'its papers at n3', ok: true },
    ]);
  });

  test('what shared keys make is told door by door, and held against nobody', () => {
    const { proofs, sharedKeys } = triedFrom(
      reportOf({
        'n1 etcd-client node': REFUSED,
        'n1 etcd-client etcd-client': LET_IN,
        'n2 etcd-client etcd-client': REFUSED,
        'n3 etcd-client etcd-client': UNPROVED,
        'n1 kubelet kubernetes-user': LET_IN,
      }),
      true,
    );
    expect(proofs.map(({ ok }) => ok)).toEqual([true]);
    const tried = Object.fromEntries(sharedKeys.map((each) => [each.key, each.tried]));
    expect(tried).toMatchObject({
      'etcd clients CA':
        "let in at etcd's client port of n1; refused at etcd's client port of n2; not proved at 1 of 3",
      'Kubernetes CA': 'let in at the kubelet of n1',
    });
    expect(tried['service account key']).toBeUndefined();
  });

  test('a worker held none', () => {
    const report = reportOf({ 'n1 kubelet node': REFUSED });
    const roles = [NodeRole.KUBERNETES_WORKER];
    expect(describeSharedKeys(triedFrom(report, false).sharedKeys, { isLost: true, roles })).toEqual([]);
  });
});

test('what another machine says steers no terminal', () => {
  const report = create(ProbeReportSchema, {
    trials: [
      { node: 'n1\u001b[2J', door: 'x\u0007', paper: 'node', outcome: UNPROVED, said: '\u001b]0;\u0007' },
    ],
  });
  expect(JSON.stringify(triedFrom(report, true))).not.toMatch(/\\u00(1b|07)/);
});

describe('describeSharedKeys()', () => {
  const keys = [
    { key: 'K', harm: 'open', tried: 'let in at X' },
    { key: 'L', harm: 'read' },
  ];
  const roles = [NodeRole.CONSENSUS_MEMBER];

  test('in plain words: each key, what it opens, and what came of trying it', () => {
    const said = describeSharedKeys(keys, { isLost: true, roles }).join('\n');
    expect(said).toMatch(
      /^\nIt held.*not revoked.*\n {2}K +open\n +tried now: let in at X\n {2}L +read\nUnless/s,
    );
  });

  test('a node that left in order wiped them, and no disk need be destroyed', () => {
    const said = describeSharedKeys(keys, { isLost: false, roles }).join('\n');
    expect(said).toMatch(/were wiped from its disk; a copy/);
    expect(said).not.toMatch(/destroyed/);
  });

  test('nobody claims to know what a node was whose roles are forgotten', () => {
    expect(describeSharedKeys(keys, { isLost: true, roles: [] }).join('\n')).toMatch(/^\nIf it was/);
  });
});
