import { describe, expect, test } from '@jest/globals';
import { factsWithRecords, fakeContent, fakeEtcd, fakeFacts, fakeNode } from './fake-facts.ts';
import { backupGateOf, gateOf, type MembershipChange } from './index.ts';

/** Control planes n1 to n3 and the worker n4, with this report of n1 about the Kubernetes etcd. */
function factsWith(report: Parameters<typeof fakeContent>[0], etcd: Parameters<typeof fakeEtcd>[0] = {}) {
  const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) =>
    name === 'n1'
      ? fakeNode(name, { etcdContents: { state: fakeContent(), kubernetes: fakeContent(report) } })
      : fakeNode(name),
  );
  return factsWithRecords({ nodes, kubernetesEtcd: fakeEtcd(etcd) });
}

const DIFFERS = { agreeing: ['id-n1', 'id-n3'], differing: ['id-n2'], comparedMs: factsWith({}).takenMs };
const NO_MAJORITY = { ...DIFFERS, agreeing: [], differing: ['id-n1', 'id-n2', 'id-n3'] };
const gone = (node: string): MembershipChange => ({ node, staysControlPlane: false });
const joins = (node: string): MembershipChange => ({ node, staysControlPlane: true });

describe('gateOf()', () => {
  const rows = [
    { name: 'the members agree', facts: factsWith({}), change: gone('n3'), want: undefined },
    {
      name: 'another member is damaged',
      facts: factsWith(DIFFERS),
      change: gone('n3'),
      want: /n2 has other/,
    },
    { name: 'the node is named by its ID', facts: factsWith(DIFFERS), change: gone('id-n3'), want: /n2 has/ },
    { name: 'its own member is damaged', facts: factsWith(DIFFERS), change: gone('n2'), want: undefined },
    { name: 'a worker is removed', facts: factsWith(DIFFERS), change: gone('n4'), want: undefined },
    {
      name: 'a worker becomes a member',
      facts: factsWith(DIFFERS),
      change: joins('n4'),
      want: /n2 has other/,
    },
    { name: 'a member stays one', facts: factsWith(DIFFERS), change: joins('n3'), want: undefined },
    { name: 'no majority agrees', facts: factsWith(NO_MAJORITY), change: gone('n2'), want: /no majority/ },
    { name: 'an etcd is full', facts: factsWith({}, { isFull: true }), change: gone('n3'), want: /is full/ },
    { name: 'the node is not known', facts: factsWith(DIFFERS), change: gone('n9'), want: /n2 has other/ },
    {
      name: 'the records cannot be read',
      facts: fakeFacts({ records: { ok: false, error: 'away', codes: [] } }),
      change: gone('n3'),
      want: undefined,
    },
  ];
  test.each(rows)('$name', ({ facts, change, want }) => {
    const cause = gateOf(facts, change)?.cause;
    if (want === undefined) expect(cause).toBeUndefined();
    else expect(cause).toMatch(want);
  });
});

describe('backupGateOf()', () => {
  test.each([
    { name: 'its own member is damaged', facts: factsWith(DIFFERS), node: 'n2', want: /n2 has other/ },
    { name: 'another member is damaged', facts: factsWith(DIFFERS), node: 'n3', want: undefined },
    { name: 'no majority agrees', facts: factsWith(NO_MAJORITY), node: 'n3', want: /no majority/ },
    { name: 'an etcd is full', facts: factsWith({}, { isFull: true }), node: 'n3', want: undefined },
  ])('$name', ({ facts, node, want }) => {
    const cause = backupGateOf(facts, node)?.cause;
    if (want === undefined) expect(cause).toBeUndefined();
    else expect(cause).toMatch(want);
  });
});
