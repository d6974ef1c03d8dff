import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { put } from '../../internal/etcd/index.ts';
import {
  nodeNameKey,
  records,
  SLOT_QUEUE_PREFIX,
  type JoinRecord,
  type TraceFactRecord,
} from '../../internal/records/index.ts';
import { FakeClock, MemoryEtcd, TestCluster } from '../../internal/testing/index.ts';
import { GetTraceResponseSchema, TraceFact_Outcome } from '../curatorproto/gen/operatorapi_pb.js';
import { FakeOwner } from '../ownerdocs/fake-owner.ts';
import { machineTrace } from './machine-trace.ts';

const signal = new AbortController().signal;
const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const KEY = 'ab'.repeat(16);
const ID = `node-${KEY}`;
const ADDRESS = '192.0.2.7';
const IDENTITY = 'tpm-ek:cdcdcdcd';
const LOOKED_BACK = 2_000;

/** The records in etcd about machines and about the decisions on them. */
class Office {
  readonly etcd = new MemoryEtcd();
  readonly clock = new FakeClock();
  readonly signer = new FakeOwner({ clock: this.clock });
  readonly ownerDocs = this.signer.ownerDocs(this.etcd);
  readonly #audit = new AuditLog({ etcd: this.etcd, log: 'requests' });

  async refuse(subject: string, detail: object, method = 'Attest', timeMs = 5): Promise<void> {
    const facts = { timeMs, caller: 'joinservice:n', method, subject };
    await this.#audit.commit(
      { when: [], then: [], facts: { ...facts, detail: { verdict: 'refused', ...detail } } },
      signal,
    );
  }

  write(key: string, value: Uint8Array): void {
    this.etcd.commitNow({ when: [], then: [put(key, value)] });
  }

  join(over: Partial<JoinRecord> = {}, facts: readonly TraceFactRecord[] = []): void {
    const record: JoinRecord = {
      version: 1,
      nodeId: ID,
      pubKey: 'AA==',
      state: 'joined',
      machine: {
        identity: IDENTITY,
        proof: 'pinned',
        variant: 'tpm',
        profile: 'identity',
        evidenceDigest: 'aa'.repeat(32),
        policyVersion: 'v1',
      },
      claimed: { hostname: 'h', address: ADDRESS, name: '', roles: [], agentVersion: '', clockOffsetMs: 0 },
      code: '',
      message: '',
      firstSeenMs: 1,
      lastSeenMs: 1,
      attempts: 1,
      ...over,
    };
    this.write(records.join.key(record.nodeId), records.join.encode(record));
    const { nodeId } = record;
    this.write(records.trace.key(nodeId), records.trace.encode({ version: 1, nodeId, facts: [...facts] }));
  }

  async trace(subject: string) {
    return create(GetTraceResponseSchema, await machineTrace(this, subject, signal));
  }
}

const passed: TraceFactRecord = {
  side: 'cluster',
  name: 'evidence',
  outcome: 'pass',
  expected: '',
  actual: '',
  fix: '',
  code: '',
  timeMs: 10,
};
const granted = (...roles: ('ConsensusMember' | 'KubernetesController' | 'KubernetesWorker')[]) => ({
  decision: { name: 'n', roles, labels: {}, by: 'operator:ann', timeMs: 1, expiresMs: 2 },
});

describe('getTrace() reads refusals of evidence from the audit log:', () => {
  const mismatch = { code: 'attestation-register-mismatch', expected: '00', actual: 'ab' };

  test('finds the refusals by source address, with expected and actual values and the number of refusals', async () => {
    const office = new Office();
    await office.refuse(`address:${ADDRESS}`, mismatch);
    await office.refuse('address:192.0.2.70', { ...mismatch, actual: 'somebody else’s' });
    await office.refuse(`address:${ADDRESS}`, { ...mismatch, repeated: 3 }, 'Attest', 6);
    await office.refuse(`address:${ADDRESS}`, { code: 'quote-stale' }, 'Attest', 7);
    const { joinId, nodeName, join, facts } = await office.trace(ADDRESS);
    expect({ joinId, nodeName, join }).toEqual({ joinId: '', nodeName: '', join: undefined });
    expect(facts.map(({ name, code, expected, actual }) => [name, code, expected, actual])).toEqual([
      ['evidence', 'attestation-register-mismatch', '00', 'ab (5 times)'],
      ['evidence', 'quote-stale', '', ''],
    ]);
    expect(facts.every(({ outcome }) => outcome === TraceFact_Outcome.FAIL)).toBe(true);
  });

  const names = [
    { name: 'its identity', subject: IDENTITY, given: IDENTITY },
    { name: 'the beginning of its identity', subject: IDENTITY, given: 'cdcdcdcd' },
    { name: 'its key fingerprint, which begins with its node ID', subject: ID, given: `sha256:${KEY}${KEY}` },
    { name: 'an IPv6 address in another form', subject: 'address:2001:db8::1', given: '2001:DB8:0::1' },
  ];
  test.each(names)('finds the refusals by $name', async ({ subject, given }) => {
    const office = new Office();
    await office.refuse(subject, { code: 'join-evidence-mismatch', reason: 'why' }, 'RequestAdmission');
    expect((await office.trace(given)).facts).toMatchObject([
      { side: 'cluster', name: 'request', code: 'join-evidence-mismatch', actual: 'why' },
    ]);
  });

  test.each(['192.0.2.8', '192.0.2.', 'sha256:ffffffff', `${IDENTITY}00`, 'x'.repeat(8), 'n9'])(
    'getTrace() does not find the machine by %s',
    async (given) => {
      const office = new Office();
      await office.refuse(`address:${ADDRESS}`, mismatch);
      await office.refuse(IDENTITY, mismatch);
      await expect(office.trace(given)).rejects.toMatchObject({ code: 'operatorapi-join-unknown' });
    },
  );

  test('getTrace() searches only the newest entries, because unauthenticated machines can make the audit log long', async () => {
    const office = new Office();
    await office.refuse(`address:${ADDRESS}`, mismatch);
    for (let i = 0; i < LOOKED_BACK + 100; i++) await office.refuse('address:192.0.2.70', mismatch);
    await expect(office.trace(ADDRESS)).rejects.toMatchObject({ code: 'operatorapi-join-unknown' });
  });

  test('getTrace() of an admitted machine omits the refusals before the cluster accepted its evidence', async () => {
    const office = new Office();
    office.join({}, [passed]);
    await office.refuse(`address:${ADDRESS}`, { ...mismatch, code: 'of-before' }, 'Attest', 9);
    await office.refuse(`address:${ADDRESS}`, mismatch, 'Attest', 11);
    for (const subject of [ID, ADDRESS]) {
      const { joinId, facts } = await office.trace(subject);
      expect(joinId).toBe(ID);
      expect(facts.map(({ name, code }) => `${name} ${code}`)).toEqual([
        'evidence ',
        'evidence attestation-register-mismatch',
      ]);
    }
  });

  test('getTrace() of an address that two machines report shows the refusals and no join', async () => {
    const office = new Office();
    office.join();
    office.join({ nodeId: 'node-other' });
    await office.refuse(`address:${ADDRESS}`, mismatch);
    expect(await office.trace(ADDRESS)).toMatchObject({ joinId: '', facts: [{ name: 'evidence' }] });
  });
});

describe('getTrace() and the queue of control planes, which join one at a time', () => {
  interface SlotCase {
    readonly name: string;
    readonly over: Partial<JoinRecord>;
    readonly queue: readonly string[];
    readonly want: string | undefined;
  }
  const table: readonly SlotCase[] = [
    {
      name: 'a worker',
      over: granted('KubernetesWorker'),
      queue: ['other'],
      want: 'PASS only control planes wait for each other',
    },
    {
      name: 'a control plane that is first in the queue',
      over: granted('ConsensusMember', 'KubernetesController'),
      queue: [ID, 'other'],
      want: 'PASS joining now',
    },
    {
      name: 'a control plane behind others',
      over: granted('ConsensusMember', 'KubernetesController'),
      queue: ['one', 'two', ID],
      want: 'WAIT position 2, about 30s',
    },
    {
      name: 'a control plane that is an etcd member',
      over: granted('ConsensusMember', 'KubernetesController'),
      queue: [],
      want: 'PASS does not wait for another control plane',
    },
    { name: 'a machine without a decision', over: {}, queue: [], want: undefined },
  ];
  test.each(table)(
    'getTrace() shows whether a machine waits in the queue: $name',
    async ({ over, queue, want }) => {
      const office = new Office();
      office.join(over);
      for (const nodeId of queue) office.write(SLOT_QUEUE_PREFIX + nodeId, text('{}'));
      const { facts, join } = await office.trace(ID);
      const slot = facts.find(({ name }) => name === 'slot');
      expect(slot && `${TraceFact_Outcome[slot.outcome]} ${slot.actual}`).toBe(want);
      expect(join?.queue === undefined).toBe(!queue.includes(ID));
    },
  );
});

test('getTrace() finds a node by name, including the first node, which never joined', async () => {
  const office = new Office();
  office.write(nodeNameKey('n1'), text(ID));
  expect(await office.trace('n1')).toMatchObject({ joinId: ID, nodeName: '', facts: [] });
});

test.each([
  { by: 'its host name', subject: 'h' },
  { by: 'the name that it requests', subject: 'wanted' },
  { by: 'the name of its approval', subject: 'n' },
])(
  'getTrace() finds a machine that asks to join by $by, unless two machines have it',
  async ({ subject }) => {
    const office = new Office();
    const claimed = {
      hostname: 'h',
      address: ADDRESS,
      name: 'wanted',
      roles: [],
      agentVersion: '',
      clockOffsetMs: 0,
    };
    const over = { state: 'approved' as const, claimed, ...granted('KubernetesWorker') };
    office.join(over);
    expect((await office.trace(subject)).joinId).toBe(ID);
    office.join({ ...over, nodeId: `node-${'cd'.repeat(16)}` });
    await expect(office.trace(subject)).rejects.toMatchObject({ code: 'operatorapi-join-unknown' });
  },
);

describe('getTrace() of a removed machine', () => {
  const removed = {
    version: 1 as const,
    identity: IDENTITY,
    name: 'n4',
    nodeId: ID,
    removal: 1,
    removedMs: 1,
    removedBy: 'operator:ann',
  };
  const removal = 'removed as node n4 at 1970-01-01T00:00:00Z by operator:ann';

  test('says that it was removed', async () => {
    const office = new Office();
    office.write(records.removed.key(IDENTITY), records.removed.encode(removed));
    for (const subject of ['n4', ID, IDENTITY, IDENTITY.slice(0, 15)])
      await expect(office.trace(subject)).rejects.toMatchObject({
        code: 'operatorapi-join-removed',
        message: expect.stringContaining(removal),
      });
  });

  test('says that an owner has readmitted it', async () => {
    const office = new Office();
    await TestCluster.create(office.etcd, () => office.clock.nowMs(), office.signer);
    const identity = `tpm-ek:${'cd'.repeat(32)}`;
    const byKey = `machine-key:${'ab'.repeat(32)}`;
    for (const each of [byKey, identity])
      office.write(records.removed.key(each), records.removed.encode({ ...removed, identity: each }));
    const readmission = office.signer.sign('readmission', { identity, removal: 1 });
    await office.signer.record(office.etcd, readmission);
    await expect(office.trace('n4')).rejects.toMatchObject({
      code: 'operatorapi-join-readmitted',
      message: expect.stringContaining(`${removal}; it is readmitted, and has not asked to join again`),
    });
  });
});
