import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
  type ProbeResultSchema,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { triedFrom } from './removal-probe.ts';
import { describeReplacedKeys, describeSharedKeys, SHARED_KEYS } from './shared-keys.ts';

const { REFUSED, LET_IN, UNPROVED } = Outcome;
const HELD = { generation: 1, isReplaced: false };

/** "n1 etcd-client node", and what came of it. */
function reportOf(rows: Readonly<Record<string, Outcome>>, away: readonly string[] = []) {
  const trials = Object.entries(rows).map(([row, outcome]): MessageInitShape<typeof ProbeResultSchema> => {
    const [node = '', door = '', paper = ''] = row.split(' ');
    return { node, endpoint: door, credential: paper, outcome, detail: 'so' };
  });
  return create(ProbeReportSchema, { results: trials, away: [...away] });
}

describe('triedFrom()', () => {
  test("a door that refuses all of the node's own papers is one proof", () => {
    const { proofs } = triedFrom(
      reportOf({
        'n1 etcd-peer node': REFUSED,
        'n1 etcd-peer kubelet': REFUSED,
        'n1 etcd-peer etcd-peer': LET_IN,
      }),
      HELD,
    );
    expect(proofs).toEqual([
      {
        what: 'its papers at the peer port of the Kubernetes etcd of n1',
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
      undefined,
    );
    expect(proofs).toEqual([{ what: 'its papers at the API server of n1', ok: false, actual: word }]);
  });

  test("a client that passes for a peer is no shared key's fault, and no proof", () => {
    const { proofs, sharedKeys } = triedFrom(reportOf({ 'n1 etcd-peer etcd-client': LET_IN }), HELD);
    expect(proofs).toMatchObject([{ ok: false }]);
    expect(sharedKeys[0]).not.toHaveProperty('tried');
  });

  test('nobody asked is nothing proved; who is away is named', () => {
    expect(triedFrom(reportOf({}, ['n3']), undefined).proofs).toMatchObject([
      { ok: false, actual: 'no door was found' },
      { what: 'its papers at n3', ok: true },
    ]);
  });

  test('doors come in one order, and each with its nodes by number, however they were tried', () => {
    const rows = ['n10 kubelet node', 'n2 kubelet node', 'n1 new-door node', 'n10 api-server node'];
    const { proofs } = triedFrom(reportOf(Object.fromEntries(rows.map((row) => [row, REFUSED]))), undefined);
    expect(proofs.map(({ what }) => what)).toEqual([
      'its papers at the API server of n10',
      'its papers at the kubelet of n2',
      'its papers at the kubelet of n10',
      'its papers at new-door of n1',
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
        'n2 kubelet kubernetes-user': LET_IN,
      }),
      HELD,
    );
    expect(proofs.map(({ ok }) => ok)).toEqual([true]);
    const tried = Object.fromEntries(sharedKeys.map((each) => [each.key, each.tried]));
    expect(tried).toMatchObject({
      'etcd clients CA':
        'let in at the client port of the Kubernetes etcd of n1; refused at the client port of the Kubernetes etcd of n2; not proved at 1 of 3',
      'Kubernetes clients CA': 'let in at the kubelet of n1, n2',
    });
    expect(tried['service account key']).toBeUndefined();
  });

  describe('when the keys it held were replaced', () => {
    const replaced = { generation: 1, isReplaced: true };
    const papers = SHARED_KEYS.flatMap((key) => key.papers.map((paper) => [key, paper] as const));
    const doorOf = (paper: string) => (/^(state-)?etcd-/.test(paper) ? paper : 'api-server');
    const allRefused = Object.fromEntries(
      ['n1', 'n2'].flatMap((node) =>
        papers.map(([, paper]) => [`${node} ${doorOf(paper)} ${paper}`, REFUSED]),
      ),
    );

    test('all that they make must be refused', () => {
      const { proofs } = triedFrom(reportOf({ 'n1 kubelet node': REFUSED, ...allRefused }), replaced);
      expect(proofs.every(({ ok }) => ok)).toBe(true);
      expect(proofs).toContainEqual({
        what: 'what the old etcd peers CA makes',
        ok: true,
        actual: 'refused at the peer port of the Kubernetes etcd of n1, n2',
      });
    });

    test.each(papers)('$key: a %s that is let in, not proved or not tried is no proof', (key, paper) => {
      const row = `n2 ${doorOf(paper)} ${paper}`;
      const what = `what the old ${key.key} makes`;
      for (const outcome of [LET_IN, UNPROVED]) {
        const { proofs } = triedFrom(reportOf({ ...allRefused, [row]: outcome }), replaced);
        expect(proofs.filter(({ ok }) => !ok).map((each) => each.what)).toContain(what);
      }
      const without = Object.entries(allRefused).filter(([name]) => !name.includes(` ${doorOf(paper)} `));
      const { proofs } = triedFrom(reportOf(Object.fromEntries(without)), replaced);
      expect(proofs).toContainEqual({ what, ok: false, actual: 'was not tried' });
    });
  });

  test('a worker held none', () => {
    const report = reportOf({ 'n1 kubelet node': REFUSED });
    const { sharedKeys } = triedFrom(report, undefined);
    expect(describeSharedKeys(sharedKeys, { isLost: true, outcome: 'none', generation: 2 })).toEqual([]);
  });
});

test('what another machine says steers no terminal', () => {
  const report = create(ProbeReportSchema, {
    results: [
      {
        node: 'n1\u001b[2J',
        endpoint: 'x\u0007',
        credential: 'node',
        outcome: UNPROVED,
        detail: '\u001b]0;\u0007',
      },
    ],
  });
  expect(JSON.stringify(triedFrom(report, HELD))).not.toMatch(/\\u00(1b|07)/);
});

describe('describeSharedKeys()', () => {
  const keys = [
    { key: 'K', harm: 'open', lasts: false, tried: 'let in at X' },
    { key: 'L', harm: 'read', lasts: true },
  ];

  test('in plain words: each key, what it opens, what came of trying it, and the way out', () => {
    const said = describeSharedKeys(keys, { isLost: true, outcome: 'kept', generation: 2 }).join('\n');
    expect(said).toMatch(
      /^\nIt held.*not revoked.*\n {2}K +open\n +tried now: let in at X\n {2}L +read\nUnless.*cluster keys rotate --replace 2$/s,
    );
  });

  test('a node that left in order wiped them', () => {
    const said = describeSharedKeys(keys, { isLost: false, outcome: 'kept', generation: 2 }).join('\n');
    expect(said).toMatch(/were wiped from its disk; a copy/);
  });

  test('nobody claims to know what a node was whose roles are forgotten', () => {
    expect(describeSharedKeys(keys, { isLost: true, outcome: 'unknown', generation: 2 }).join('\n')).toMatch(
      /^\nIf it was/,
    );
  });

  test('who is no owner learns that one is needed', () => {
    const said = describeSharedKeys(keys, { isLost: true, outcome: 'owner-needed', generation: 2 }).join(
      '\n',
    );
    expect(said).toMatch(/an owner has to have them replaced: cluster keys rotate --replace 2$/);
  });

  test('of replaced keys it is told what refused them, and of the others what they open', () => {
    const said = describeSharedKeys(keys, { isLost: true, outcome: 'replaced', generation: 2 }).join('\n');
    expect(said).toMatch(/replaced.*\n {2}K +let in at X\nWhat cannot be replaced.*\n {2}L +read$/s);
    expect(said).not.toContain('open\n');
    expect(describeReplacedKeys(keys)[0]).toBe('');
  });
});
