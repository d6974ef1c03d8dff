import { create } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { endorsementKeyIdentity } from '../../internal/attestation/index.ts';
import { encodeEnrolmentRequest, endorsementKeyIdOf } from '../../internal/attestation/enrolment/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { auditKey, records, type NodeRecord } from '../../internal/records/index.ts';
import { relayedPathOf, sourcePathOf, type Call, type SourcePath } from '../../internal/rpc/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd } from '../../internal/testing/index.ts';
import { generateKey } from '../../internal/testing/pki/index.ts';
import { createSoftKey } from '../../internal/testing/tpm/fake-tpm.ts';
import { WireWriter } from '../../internal/tpm/index.ts';
import { IssueDiskShareRequestSchema } from '../joinproto/gen/join_pb.js';
import { GiveDiskShareResponseSchema } from '../signerproto/gen/signer_pb.js';
import { DiskShares } from './disk-shares.ts';
import { JoinError } from './errors.ts';

const signal = new AbortController().signal;
const UUID = '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f';
const HERE = sourcePathOf('192.0.2.1');
const coded = (code: string): unknown => expect.objectContaining({ code });

/** An EK public area of template L-2 (TCG EK Credential Profile), and the identity of its machine. */
function machine() {
  const point = generateKey('p256').spki.subarray(-64);
  const head = new WireWriter().u16(0x0023).u16(0x000b).u32(0x000300b2).sized(new Uint8Array(32));
  for (const each of [0x0006, 128, 0x0043, 0x0010, 0x0003, 0x0010]) head.u16(each);
  const endorsementKey = head.sized(point.subarray(0, 32)).sized(point.subarray(32)).finish();
  const enrolment = encodeEnrolmentRequest({ endorsementKey, attestationKey: createSoftKey().publicArea });
  return { identity: endorsementKeyIdentity(endorsementKeyIdOf(endorsementKey)), enrolment };
}

let clock: FakeClock;
let etcd: MemoryEtcd;
let shares: DiskShares;
/** How often the signer was asked. */
let asked: number;
let policy: string;
let allowed: boolean;
let etcdIsFull: boolean;
let logs: ReturnType<typeof createMemoryLogger>;
const [worker, other] = [machine(), machine()];
beforeEach(() => {
  clock = new FakeClock();
  etcd = new MemoryEtcd();
  [asked, policy, allowed, etcdIsFull] = [0, 'p', true, false];
  logs = createMemoryLogger();
  const requests = new AuditLog({ etcd, log: 'requests' });
  shares = new DiskShares({
    ...{ etcd, clock, log: logs.log, own: { nodeId: 'n' } },
    requests: {
      commit: (change, by) => (etcdIsFull ? Promise.reject(new Error('full')) : requests.commit(change, by)),
    },
    signer: { giveDiskShare: () => Promise.resolve((asked++, create(GiveDiskShareResponseSchema))) },
    checkPolicy: ({ verdict }) => {
      if (verdict.policyVersion !== policy) throw new JoinError('join-evidence-outdated', 'older');
    },
    checkAllowed: () => {
      if (!allowed) throw new JoinError('join-unknown-machine', 'not listed');
    },
  });
  record(worker.identity, 'node-1');
  record(other.identity, 'node-2');
});

function record(identity: string, nodeId: string, over: Partial<NodeRecord> = {}): void {
  const node = {
    ...{ version: 1, nodeId, name: nodeId, pubKey: '', state: 'UP', roles: ['KubernetesWorker'] },
    ...{ labels: {}, createdMs: 0 },
    admission: {
      ...{ identity, proof: 'endorsed', variant: 'tpm', profile: 'identity', evidenceDigest: 'd'.repeat(64) },
      ...{ policyVersion: 'p', decidedBy: 'operator:o', timeMs: 0 },
    },
    ...over,
  } as NodeRecord;
  const held = records.identity.encode({ version: 1, nodeId });
  const then = [
    put(records.node.key(nodeId), records.node.encode(node)),
    put(records.identity.key(identity), held),
  ];
  etcd.commitNow({ when: [], then });
}

function ask(
  { enrolment }: { readonly enrolment: Uint8Array },
  source: SourcePath = HERE,
  over: object = {},
) {
  const peer = {
    session: new Uint8Array(64),
    verdict: { policyVersion: 'p' },
  } as unknown as AttestedPeer;
  const call: Call<AttestedPeer> = { peer, signal, source };
  const evidence = [{ variant: 'tpm', document: new Uint8Array(8) }];
  const request = create(IssueDiskShareRequestSchema, {
    uuid: UUID,
    enrolment,
    timeMs: 1n,
    evidence,
    ...over,
  });
  return shares.issue(request, call);
}

describe('the signer is not asked', () => {
  test('for a machine that is no member, is on record for another machine or was removed', async () => {
    await expect(ask(machine())).rejects.toEqual(coded('join-share-not-member'));
    record(worker.identity, 'node-1', { state: 'DECOMMISSIONED' });
    await expect(ask(worker)).rejects.toEqual(coded('join-share-not-member'));
    record(worker.identity, 'node-1', { admission: undefined });
    await expect(ask(worker)).rejects.toEqual(coded('join-share-not-member'));
    expect(asked).toBe(0);
  });

  test('in a session whose evidence was verified with an earlier policy', async () => {
    policy = 'next';
    await expect(ask(worker)).rejects.toEqual(coded('join-evidence-outdated'));
    expect(asked).toBe(0);
  });

  test('for a machine that the policy does not list any more', async () => {
    allowed = false;
    await expect(ask(worker)).rejects.toEqual(coded('join-unknown-machine'));
    expect(asked).toBe(0);
  });

  test.each([
    { name: 'a malformed UUID', over: { uuid: 'x' } },
    { name: 'no evidence', over: { evidence: [] } },
    { name: 'a large enrolment', over: { enrolment: new Uint8Array(100_000) } },
  ])('for a malformed request: $name', async ({ over }) => {
    await expect(ask(worker, HERE, over)).rejects.toEqual(coded('join-keys-invalid'));
    expect(asked).toBe(0);
  });
});

describe('a flood of requests for one machine', () => {
  const flood = async (source: SourcePath): Promise<void> => {
    for (let i = 0; i < 100; i++) await ask(worker, source).catch(() => undefined);
  };

  test('reaches the signer 40 times in ten minutes from one address', async () => {
    await flood(HERE);
    expect(asked).toBe(40);
    await expect(ask(worker)).rejects.toEqual(coded('join-share-too-often'));
    await clock.advance(10 * 60_000);
    await ask(worker);
    expect(asked).toBe(41);
  });

  test('keeps neither the machine itself nor others from their shares', async () => {
    await flood(HERE);
    await flood(relayedPathOf('192.0.2.2', '198.18.0.7'));
    await ask(worker, sourcePathOf('192.0.2.3'));
    await ask(worker, relayedPathOf('192.0.2.2', '198.18.0.8'));
    await ask(other);
    expect(asked).toBe(83);
  });
});

describe('a share that was given', () => {
  const detail = {
    ...{ verdict: 'given', identity: worker.identity, uuid: UUID },
    source: '192.0.2.2 for 198.18.0.7',
  };
  const relayed = relayedPathOf('192.0.2.2', '198.18.0.7');

  test('is in the audit log of requests, with node, machine, disk and source', async () => {
    await ask(worker, relayed);
    const { record: entry } = await records.audit.read(etcd, auditKey(1, 'requests'), signal);
    const facts = { caller: 'joinservice:n', method: 'IssueDiskShare', subject: 'node-1', detail };
    expect(entry).toMatchObject(facts);
  });

  test('is given even if that cannot be written, and the log has it', async () => {
    etcdIsFull = true;
    await ask(worker, relayed);
    const { verdict: _, ...fields } = detail;
    expect(logs.records.map((each) => [each.level, each.fields])).toEqual([
      ['info', { node: 'node-1', ...fields }],
      ['error', { node: 'node-1', ...fields, error: expect.anything() }],
    ]);
  });
});
