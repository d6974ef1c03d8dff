import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { remove } from '../../internal/etcd/index.ts';
import {
  AUDIT_PREFIX,
  keyIdentityOf,
  MERGED_REMOVALS_KEY,
  records,
  REMOVED_PREFIX,
  type KnownMachine,
  type NodeRecord,
} from '../../internal/records/index.ts';
import { FakeClock, MemoryEtcd, TestCluster, type TestPeer } from '../../internal/testing/index.ts';
import { ReportRemovalsRequestSchema } from '../curatorproto/gen/distribution_pb.js';
import { takeReport } from './take-report.ts';

const { signal } = new AbortController();
const coded = (code: string): unknown => expect.objectContaining({ code });
const machine = (at: number): KnownMachine => {
  const hex = at.toString(16).padStart(4, '0');
  return { identity: `tpm-ek:${hex.repeat(16)}`, nodeId: `node-${hex.repeat(8)}`, name: `m${at}` };
};
const machines = (count: number, from = 0): KnownMachine[] =>
  Array.from({ length: count }, (_, at) => machine(from + at));
const admissionOf = (identity: string, decidedBy: string): NonNullable<NodeRecord['admission']> => ({
  ...{ identity, proof: 'pinned', variant: 'tpm', profile: 'identity', policyVersion: 'p' },
  ...{ evidenceDigest: 'd'.repeat(64), decidedBy, timeMs: 1 },
});

/** A restored cluster that has kept the worker w1. */
async function createRestored() {
  const [etcd, clock] = [new MemoryEtcd(), new FakeClock()];
  const cluster = await TestCluster.create(etcd, () => clock.nowMs());
  const nodeIdOf = ({ identity }: TestPeer): string => (identity.kind === 'node' ? identity.nodeId : '');
  const keep = (nodeId: string): void => {
    const write = records.keptWorker.put(records.keptWorker.key(nodeId), {
      version: 1,
      ...{ merged: 0, isDone: false },
    });
    etcd.commitNow({ when: [], then: [write] });
  };
  const addMember = async (name: string, identity: string, decidedBy = 'operator:o') => {
    const peer = await cluster.addNode(name, { admission: admissionOf(identity, decidedBy) });
    const nodeId = nodeIdOf(peer);
    const write = records.identity.put(records.identity.key(identity), { version: 1, nodeId });
    etcd.commitNow({ when: [], then: [write] });
    return { peer, nodeId, keyIdentity: keyIdentityOf(peer.pubKeyDer) };
  };
  const w1 = await addMember('w1', `tpm-ek:${'aa'.repeat(32)}`);
  keep(w1.nodeId);
  const audit = new AuditLog({ etcd });
  const report = (reported: readonly KnownMachine[], by = w1.nodeId, name = 'w1') =>
    takeReport(
      { etcd, audit, clock },
      create(ReportRemovalsRequestSchema, { machines: reported.map((each) => ({ ...each })) }),
      { peer: { kind: 'node', nodeId: by, name, addresses: [] }, signal },
    );
  const removed = async (): Promise<readonly string[]> =>
    (await etcd.list(REMOVED_PREFIX, { signal })).entries.map(({ key }) => key.slice(REMOVED_PREFIX.length));
  const audited = async () =>
    (await etcd.list(AUDIT_PREFIX, { signal })).entries.map(({ key, value }) =>
      records.audit.decode(key, value),
    );
  return { etcd, clock, cluster, w1, keep, addMember, report, removed, audited };
}

describe('takeReport()', () => {
  test('records each machine that is unknown and no member as removed, with the worker as source, and an audit entry in each transaction', async () => {
    const { etcd, report, removed, audited, w1 } = await createRestored();
    expect(await report(machines(60))).toEqual([]);
    expect(await removed()).toHaveLength(60);
    const key = records.removed.key(machine(59).identity);
    const { record } = await records.removed.read(etcd, key, signal);
    expect(record).toMatchObject({ ...machine(59), removal: 1, removedBy: 'kept-worker:w1' });
    const about = { caller: `node:${w1.nodeId}`, method: 'ReportRemovals', subject: 'removals' };
    const detail = { name: 'w1', members: 0, left: 0 };
    expect(await audited()).toMatchObject([
      { ...about, detail: { ...detail, removed: 24, isDone: false } },
      { ...about, detail: { ...detail, removed: 24, isDone: false } },
      { ...about, detail: { ...detail, removed: 12, isDone: true } },
    ]);
  });

  test('leaves a removal that is on record as it is', async () => {
    const { etcd, report } = await createRestored();
    const key = records.removed.key(machine(1).identity);
    const before = { version: 1, ...machine(1), removal: 3, removedMs: 5, removedBy: 'restore' } as const;
    etcd.commitNow({ when: [], then: [records.removed.put(key, before)] });
    await report([{ ...machine(1), name: 'other' }]);
    expect((await records.removed.read(etcd, key, signal)).record).toEqual(before);
  });

  test('never removes a member: it returns a kept one, under its own name, for the owner to decide', async () => {
    const { report, removed, addMember, keep } = await createRestored();
    const identity = `tpm-ek:${'bb'.repeat(32)}`;
    const w2 = await addMember('w2', identity);
    keep(w2.nodeId);
    const { nodeId, keyIdentity } = w2;
    const reported = [
      { identity, nodeId, name: 'w2' },
      { identity: keyIdentity, nodeId, name: 'w2' },
      { identity, nodeId: machine(1).nodeId, name: 'other' },
      { identity: keyIdentity, nodeId: machine(1).nodeId, name: 'other' },
      { ...machine(2), nodeId },
    ];
    const found = await report(reported);
    expect(found).toHaveLength(3);
    expect(found.every((each) => each.nodeId === nodeId && each.name === 'w2')).toBe(true);
    expect(await removed()).toEqual([]);
    expect(await report(reported)).toEqual(found);
  });

  test.each([
    { name: 'a machine that a policy has admitted since', decidedBy: 'policy:v', want: 1 },
    { name: 'no machine that an operator has admitted since', decidedBy: 'operator:o', want: 0 },
    { name: 'no machine that the owner restored the cluster on', decidedBy: 'init', want: 0 },
  ])('returns $name', async ({ decidedBy, want }) => {
    const { report, removed, addMember } = await createRestored();
    const { identity } = machine(7);
    const { nodeId } = await addMember('m7', identity, decidedBy);
    expect(await report([{ identity, nodeId, name: 'm7' }])).toHaveLength(want);
    expect(await removed()).toEqual([]);
  });

  test('does not return a member any more once it is removed', async () => {
    const { etcd, report, addMember, keep } = await createRestored();
    const { identity } = machine(7);
    const { nodeId } = await addMember('w2', identity);
    keep(nodeId);
    const [unmerged] = await report([{ identity, nodeId, name: 'w2' }]);
    const removal = {
      version: 1,
      identity,
      nodeId,
      name: 'w2',
      removal: 1,
      removedMs: 1,
      removedBy: 'x',
    } as const;
    const gone = [records.node.key(nodeId), records.identity.key(identity)].map(remove);
    const then = [...gone, records.removed.put(records.removed.key(identity), removal)];
    etcd.commitNow({ when: [], then });
    expect(unmerged === undefined ? undefined : await report([unmerged])).toEqual([]);
  });

  test('adds nothing with a second report', async () => {
    const { report, removed, audited } = await createRestored();
    await report(machines(1));
    expect(await report(machines(2))).toEqual([]);
    expect(await removed()).toEqual([machine(0).identity]);
    expect(await audited()).toHaveLength(1);
  });

  test('refuses a node that no restore has kept, and records nothing', async () => {
    const { report, removed, addMember } = await createRestored();
    const { nodeId } = await addMember('w3', machine(9).identity);
    await expect(report(machines(1), nodeId, 'w3')).rejects.toEqual(coded('removedmachines-not-kept'));
    expect(await removed()).toEqual([]);
  });

  test('continues after it was interrupted at any transaction, and records each machine once', async () => {
    for (let at = 0; ; at++) {
      const { etcd, report, removed, audited } = await createRestored();
      let commits = 0;
      etcd.onCommit = () => {
        if (commits++ === at) throw new Error('killed');
      };
      const wasKilled = await report(machines(60)).then(
        () => false,
        () => true,
      );
      await report(machines(60));
      const counts = (await audited()).map(({ detail }) => Number(detail['removed']));
      expect([(await removed()).length, counts.reduce((sum, each) => sum + each, 0)]).toEqual([60, 60]);
      if (!wasKilled) break;
    }
  });

  test('does not remove a machine that becomes a member while its removal is being recorded', async () => {
    const { etcd, report, removed, addMember, keep } = await createRestored();
    const { identity } = machine(3);
    const { nodeId } = await addMember('w2', machine(4).identity);
    keep(nodeId);
    etcd.onCommit = () => {
      etcd.onCommit = () => undefined;
      const write = records.identity.put(records.identity.key(identity), { version: 1, nodeId });
      etcd.commitNow({ when: [], then: [write] });
    };
    expect(await report([machine(3)])).toEqual([{ identity, nodeId, name: 'w2' }]);
    expect(await removed()).toEqual([]);
  });

  test.each([
    { name: 'too many machines', reported: machines(4_097) },
    { name: 'a machine without an identity', reported: [{ ...machine(1), identity: '' }] },
    { name: 'a machine whose node ID is a path', reported: [{ ...machine(1), nodeId: 'node-1/../x' }] },
    { name: 'a machine with a name of two lines', reported: [{ ...machine(1), name: 'a\nb' }] },
  ])('refuses a report of $name, and records nothing', async ({ reported }) => {
    const { report, removed } = await createRestored();
    await expect(report([machine(2), ...reported].slice(-4_097))).rejects.toEqual(
      coded('curator-request-invalid'),
    );
    expect(await removed()).toEqual([]);
  });

  test('adds at most 4,096 removals for a worker, whose interrupted reports count too', async () => {
    const { etcd, report, removed, audited, w1 } = await createRestored();
    const key = records.keptWorker.key(w1.nodeId);
    const earlier = records.keptWorker.put(key, { version: 1, merged: 4_090, isDone: false });
    etcd.commitNow({ when: [], then: [earlier] });
    await report(machines(10));
    expect(await removed()).toHaveLength(6);
    expect((await audited())[0]).toMatchObject({ detail: { removed: 6, left: 4, isDone: true } });
  });

  test('adds at most 16,384 removals for all workers', async () => {
    const { etcd, report, removed } = await createRestored();
    const total = records.mergedRemovals.put(MERGED_REMOVALS_KEY, { version: 1, merged: 16_380 });
    etcd.commitNow({ when: [], then: [total] });
    await report(machines(10));
    expect(await removed()).toHaveLength(4);
  });
});
