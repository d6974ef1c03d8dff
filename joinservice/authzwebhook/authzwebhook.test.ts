import { describe, expect, test } from '@jest/globals';
import { put, remove } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import { parseRecordedPersons, renderRecordedPersons, type OperatorRole } from '../../internal/role/index.ts';
import { FakeClock, MemoryEtcd } from '../../internal/testing/index.ts';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { createMembershipLookup, listRecordedPersons } from './membership-lookup.ts';
import { claimOf, decideReview, parseReview, renderDecision, type RecordedMember } from './access-review.ts';

const never = new AbortController().signal;
const kubelet = { user: 'system:node:n1', uid: 'node-1', groups: ['system:nodes', 'system:authenticated'] };
const member = { kind: 'node', name: 'n1', isMember: true } as const;
const id = `sha256:${'a'.repeat(64)}`;
const ann = { user: 'ann', uid: id, groups: ['cluster:operators', 'system:authenticated'] };
const operator = { kind: 'operator', name: 'ann', role: 'operator' } as const;
const owner = { user: 'owner', uid: id, groups: ['kubeadm:cluster-admins', 'system:authenticated'] };
const review = (spec: object): string =>
  JSON.stringify({ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec });

describe('decideReview()', () => {
  const cases: {
    name: string;
    subject?: Partial<typeof kubelet>;
    node?: RecordedMember;
    want: string;
  }[] = [
    {
      name: 'a kubelet of a member gets no opinion, so Kubernetes decides',
      node: member,
      want: 'no-opinion',
    },
    { name: 'a node without a record is denied', want: 'deny' },
    { name: 'a decommissioned node is denied', node: { ...member, isMember: false }, want: 'deny' },
    {
      name: 'a credential without a node ID is denied',
      subject: { uid: '' },
      node: member,
      want: 'deny',
    },
    {
      name: 'a removed machine is denied when its name belongs to another node',
      subject: { uid: 'node-old' },
      want: 'deny',
    },
    {
      name: 'the ID of a member with the name of another node is denied',
      subject: { user: 'system:node:n2' },
      node: member,
      want: 'deny',
    },
    {
      name: 'a user in the group system:nodes whose name is not a node name is denied',
      subject: { user: 'eve' },
      node: member,
      want: 'deny',
    },
    {
      name: 'an operator on record gets no opinion, so Kubernetes decides',
      subject: ann,
      node: operator,
      want: 'no-opinion',
    },
    { name: 'a removed operator is denied', subject: ann, want: 'deny' },
    {
      name: 'an operator with another role on record is denied',
      subject: ann,
      node: { ...operator, role: 'viewer' },
      want: 'deny',
    },
    {
      name: 'an operator whose key has another name is denied',
      subject: { ...ann, user: 'bob' },
      node: operator,
      want: 'deny',
    },
    {
      name: 'an operator whose certificate does not name the fingerprint of a key is denied',
      subject: { ...ann, uid: '' },
      node: operator,
      want: 'deny',
    },
    {
      name: 'a node in a group of operators is denied',
      subject: { ...ann, uid: 'node-1' },
      node: member,
      want: 'deny',
    },
    {
      name: 'an owner on record gets no opinion, so Kubernetes decides',
      subject: owner,
      node: { ...operator, role: 'owner' },
      want: 'no-opinion',
    },
    { name: 'a removed owner is denied', subject: owner, want: 'deny' },
    {
      name: 'an owner who is only an operator now is denied',
      subject: { ...owner, user: 'ann' },
      node: operator,
      want: 'deny',
    },
    {
      name: 'the administrator of a control plane, who has no key of an owner, gets no opinion',
      subject: { ...owner, user: 'kubernetes-admin', uid: '' },
      want: 'no-opinion',
    },
    {
      name: 'a user that does not claim to be a node or an operator gets no opinion, so Kubernetes decides',
      subject: { user: 'admin', uid: '', groups: ['system:masters'] },
      want: 'no-opinion',
    },
  ];
  test.each(cases)('$name', ({ subject, node, want }) => {
    expect(decideReview({ ...kubelet, ...subject }, node).kind).toBe(want);
  });

  test('decideReview() never allows a request, which would bypass the authorizers of Kubernetes', () => {
    for (const node of [member, undefined]) {
      const { status } = JSON.parse(renderDecision(decideReview(kubelet, node))) as {
        status: { allowed: boolean; denied?: boolean };
      };
      expect(status.allowed).toBe(false);
      expect(status.denied).toBe(node === undefined ? true : undefined);
    }
  });
});

describe('parseReview()', () => {
  test('parseReview() reads the user of any request', () => {
    const subject = parseReview(
      review({ ...kubelet, extra: { a: ['b'] }, resourceAttributes: { verb: 'get' } }),
    );
    expect(subject).toEqual(kubelet);
    expect(claimOf(subject)).toEqual({ kind: 'node', id: 'node-1', isOwner: false });
    expect(claimOf(parseReview(review(ann)))).toEqual({ kind: 'operator', id, isOwner: false });
    expect(claimOf(parseReview(review(owner)))).toEqual({ kind: 'operator', id, isOwner: true });
    expect(claimOf(parseReview(review({ user: 'admin' })))).toBeUndefined();
  });

  test.each([
    { name: 'an empty body', text: '' },
    {
      name: 'a document of another kind',
      text: review(kubelet).replace('SubjectAccessReview', 'TokenReview'),
    },
    { name: 'a document of another version', text: review(kubelet).replace('/v1', '/v1beta1') },
    { name: 'groups that are not a list', text: review({ ...kubelet, groups: 'system:nodes' }) },
    { name: 'a UID that is too long', text: review({ ...kubelet, uid: 'x'.repeat(10_000) }) },
  ])('parseReview() refuses $name', ({ text }) => {
    expect(() => parseReview(text)).toThrow();
  });
});

describe('createMembershipLookup()', () => {
  /** These tests have no operators. */
  const ownerDocs = { recordedOperator: async () => undefined };
  const node1 = { kind: 'node', id: 'node-1', isOwner: false } as const;

  async function start() {
    const clock = new FakeClock();
    const etcd = new MemoryEtcd();
    const key = records.node.key('node-1');
    const record = {
      ...{ version: 1 as const, nodeId: 'node-1', name: 'n1', pubKey: 'AA==', state: 'UP' as const },
      ...{ roles: [], labels: {}, createdMs: 1 },
    };
    await etcd.commit({ when: [], then: [put(key, records.node.encode(record))] }, { signal: never });
    let reads = 0;
    const counted = new Proxy(etcd, {
      get: (target, name: keyof MemoryEtcd) => {
        if (name === 'get') reads++;
        return (target[name] as () => unknown).bind(target);
      },
    });
    const forget = () => etcd.commit({ when: [], then: [remove(key)] }, { signal: never });
    return {
      clock,
      lookup: createMembershipLookup({ etcd: counted, ownerDocs }, clock),
      forget,
      reads: () => reads,
    };
  }

  test('the lookup reuses a result for one second, and then finds that a node was deleted', async () => {
    const { clock, lookup, forget, reads } = await start();
    const both = await Promise.all([lookup(node1, never), lookup(node1, never)]);
    expect(both).toEqual([member, member]);
    expect(reads()).toBe(1);
    await forget();
    expect(await lookup(node1, never)).toEqual(member);
    await clock.advance(1_000);
    expect(await lookup(node1, never)).toBeUndefined();
  });

  test('the lookup returns nothing for an invalid ID, without reading etcd', async () => {
    const { lookup, reads } = await start();
    for (const nodeId of ['', '../operators/x', 'a/b', 'x'.repeat(200)])
      for (const kind of ['node', 'operator'] as const)
        expect(await lookup({ kind, id: nodeId, isOwner: false }, never)).toBeUndefined();
    expect(await lookup({ kind: 'operator', id: 'node-1', isOwner: false }, never)).toBeUndefined();
    expect(reads()).toBe(0);
  });

  test('the lookup ignores the record of an operator or owner that no owner has signed', async () => {
    const clock = new FakeClock();
    const etcd = new MemoryEtcd();
    const first = new FakeOwner({ clock });
    const lookup = createMembershipLookup({ etcd, ownerDocs: first.ownerDocs(etcd) }, clock);
    const find = async (fingerprint: string, role: OperatorRole) => {
      const record = { version: 1, name: 'ann', fingerprint, role, createdMs: 1 } as const;
      const write = put(records.operator.key(fingerprint), records.operator.encode(record));
      await etcd.commit({ when: [], then: [write] }, { signal: never });
      await clock.advance(1_000);
      return lookup({ kind: 'operator', id: fingerprint, isOwner: role === 'owner' }, never);
    };
    for (const role of ['owner', 'operator'] as const) expect(await find(id, role)).toBeUndefined();
    expect(await find(first.fingerprint, 'owner')).toEqual({ kind: 'operator', name: 'ann', role: 'owner' });
    const operators = [{ name: 'ann', fingerprint: id, role: 'operator' as const }];
    await first.record(etcd, first.sign('operators', { operators }));
    expect(await find(id, 'operator')).toEqual({ kind: 'operator', name: 'ann', role: 'operator' });
    expect(await find(id, 'owner')).toBeUndefined();
  });

  test('the lookup reads etcd again after a failed read', async () => {
    const { clock } = await start();
    let isDown = true;
    const etcd = new MemoryEtcd();
    const failing = new Proxy(etcd, {
      get: (target, name: keyof MemoryEtcd) =>
        name === 'get' && isDown
          ? () => Promise.reject(new Error('no leader'))
          : (target[name] as () => unknown).bind(target),
    });
    const lookup = createMembershipLookup({ etcd: failing, ownerDocs }, clock);
    await expect(lookup(node1, never)).rejects.toThrow('no leader');
    isDown = false;
    expect(await lookup(node1, never)).toBeUndefined();
  });
});

describe('listRecordedPersons()', () => {
  test('listRecordedPersons() has the owners, operators and viewers that an owner has signed, and no others', async () => {
    const clock = new FakeClock();
    const etcd = new MemoryEtcd();
    const first = new FakeOwner({ clock });
    const ownerDocs = first.ownerDocs(etcd);
    const uidOf = (digit: string): string => `sha256:${digit.repeat(64)}`;
    const write = (name: string, fingerprint: string, role: OperatorRole, key = fingerprint) => {
      const record = records.operator.encode({ version: 1, name, fingerprint, role, createdMs: 1 });
      return etcd.commit({ when: [], then: [put(records.operator.key(key), record)] }, { signal: never });
    };
    await write('ann', first.fingerprint, 'owner');
    await write('bob', uidOf('b'), 'operator');
    await write('carl', uidOf('c'), 'viewer');
    // Records that an owner has signed in another form, and one under the key of another person.
    await write('dora', uidOf('d'), 'operator');
    await write('otto', uidOf('e'), 'operator');
    await write('bob', uidOf('b'), 'operator', uidOf('f'));
    const operators = [
      { name: 'bob', fingerprint: uidOf('b'), role: 'operator' as const },
      { name: 'carl', fingerprint: uidOf('c'), role: 'viewer' as const },
      { name: 'dora', fingerprint: uidOf('d'), role: 'viewer' as const },
      { name: 'eve', fingerprint: uidOf('e'), role: 'operator' as const },
    ];
    await first.record(etcd, first.sign('operators', { operators }));
    const list = () => listRecordedPersons({ ownerDocs, clock }, never);
    const expected = [
      { uid: first.fingerprint, user: 'ann', group: 'kubeadm:cluster-admins' },
      { uid: uidOf('b'), user: 'bob', group: 'cluster:operators' },
      { uid: uidOf('c'), user: 'carl', group: 'cluster:viewers' },
    ];
    const found = await list();
    expect(found).toHaveLength(expected.length);
    expect(found).toEqual(expect.arrayContaining(expected));
    expect(parseRecordedPersons(renderRecordedPersons(found))).toEqual(found);
    await etcd.commit({ when: [], then: [remove(records.operator.key(uidOf('b')))] }, { signal: never });
    expect((await list()).map(({ user }) => user).sort()).toEqual(['ann', 'carl']);
  });
});

describe('parseRecordedPersons()', () => {
  const person = { uid: id, user: 'ann', group: 'cluster:operators' };
  test.each([
    { name: 'a name with a quote', over: { user: "a' || true || '" } },
    { name: 'a name with a space', over: { user: 'ann cluster:operators' } },
    { name: 'a group of Kubernetes', over: { group: 'system:masters' } },
    { name: 'the ID of a node', over: { uid: 'node-1' } },
    { name: 'another value', over: { more: 1 } },
  ])('parseRecordedPersons() refuses $name', ({ over }) => {
    const text = (each: object): string => JSON.stringify({ version: 1, persons: [each] });
    expect(parseRecordedPersons(text(person))).toEqual([person]);
    expect(() => parseRecordedPersons(text({ ...person, ...over }))).toThrow();
  });
});
