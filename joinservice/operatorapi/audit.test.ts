import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { ChainVerifier, EMPTY_CHAIN } from '../../internal/audit/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { remove, type CallOptions, type Listing } from '../../internal/etcd/index.ts';
import { auditKey } from '../../internal/records/index.ts';
import { FakeClock, MemoryEtcd, TestCluster } from '../../internal/testing/index.ts';
import type { Caller } from '../curator/index.ts';
import { ListAuditRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import { auditHandlers } from './audit-handlers.ts';

const signal = new AbortController().signal;
const peer: Caller = { kind: 'operator', name: 'owner', role: 'owner', fingerprint: 'sha256:00' };
const call = { peer, signal, address: '192.0.2.1' };

/** An etcd that runs a callback before every list call. */
class BusyEtcd extends MemoryEtcd {
  onList: () => Promise<void> = () => Promise.resolve();

  override async list(prefix: string, options: CallOptions): Promise<Listing> {
    await this.onList();
    return super.list(prefix, options);
  }
}

async function createAudit(count: number, kept = 1_000) {
  const etcd = new BusyEtcd();
  const clock = new FakeClock();
  await TestCluster.create(etcd, () => clock.nowMs());
  const log = new AuditLog({ etcd, maxEntries: kept });
  const append = async (more: number): Promise<void> => {
    for (let i = 0; i < more; i++) {
      const facts = { timeMs: 1, caller: 'operator:owner', method: 'Test', subject: 'x', detail: {} };
      await log.commit({ when: [], then: [], facts }, signal);
    }
  };
  await append(count);
  const read = async (request: { afterSeq?: bigint; limit?: number; requests?: boolean } = {}) => {
    const seqs: number[] = [];
    const records: Uint8Array[] = [];
    let head;
    const handler = auditHandlers({ etcd, clock }).listAudit;
    for await (const { message } of handler(create(ListAuditRequestSchema, request), call)) {
      if (message?.case === 'head') head = message.value;
      if (message?.case !== 'entry') continue;
      seqs.push(Number(message.value?.seq));
      records.push(message.value?.record ?? new Uint8Array());
    }
    return { seqs, records, head };
  };
  return { etcd, append, read };
}

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

describe('listAudit()', () => {
  test('listAudit() sends every entry once with its number, across blocks of one hundred', async () => {
    const { read } = await createAudit(312);
    const { seqs, records, head } = await read();
    expect(seqs).toEqual(range(1, 312));
    const verifier = new ChainVerifier();
    for (const record of records) verifier.next(record);
    verifier.verifyHead({ seq: 312, hash: String(head?.hash) });
  });

  test.each([
    { name: 'from the middle of a block', request: { afterSeq: 150n }, want: range(151, 230) },
    { name: 'from the end of a block', request: { afterSeq: 199n }, want: range(200, 230) },
    {
      name: 'at most the requested number of entries',
      request: { afterSeq: 95n, limit: 10 },
      want: range(96, 105),
    },
    { name: 'nothing after the last entry', request: { afterSeq: 230n }, want: [] },
  ])('sends the requested range: $name', async ({ request, want }) => {
    const { read } = await createAudit(230);
    expect((await read(request)).seqs).toEqual(want);
  });

  test('listAudit() begins with the oldest remaining entry if entries are deleted before it has sent one', async () => {
    const { etcd, append, read } = await createAudit(230, 200);
    let listings = 0;
    etcd.onList = () => (listings++ === 0 ? append(7) : Promise.resolve());
    const { seqs, head } = await read();
    expect(seqs).toEqual(range(38, 237));
    expect(head).toMatchObject({ seq: 237n, firstSeq: 38n });
  });

  test('listAudit() fails if entries are deleted while it sends them, because a gap would look like a broken chain', async () => {
    const { etcd, append, read } = await createAudit(330, 300);
    let listings = 0;
    etcd.onList = () => (listings++ === 1 ? append(120) : Promise.resolve());
    await expect(read()).rejects.toMatchObject({ code: 'operatorapi-audit-truncated', retryable: true });
  });

  test('listAudit() sends the log of requests only if it is asked for', async () => {
    const { etcd, read } = await createAudit(2);
    const requests = new AuditLog({ etcd, log: 'requests' });
    const facts = { timeMs: 1, caller: 'joinservice:n', method: 'Attest', subject: 'x', detail: {} };
    for (let i = 0; i < 3; i++) await requests.commit({ when: [], then: [], facts }, signal);
    expect((await read()).head).toMatchObject({ seq: 2n, requests: false });
    const { seqs, records, head } = await read({ requests: true });
    expect([seqs, head]).toMatchObject([range(1, 3), { seq: 3n, requests: true }]);
    const verifier = new ChainVerifier(EMPTY_CHAIN, 'requests');
    for (const record of records) verifier.next(record);
    expect(() => new ChainVerifier().next(records[0] ?? new Uint8Array())).toThrow('another log');
  });

  test('listAudit() sends a chain with a visible gap if entries were deleted', async () => {
    const { etcd, read } = await createAudit(320);
    etcd.commitNow({ when: [], then: range(101, 200).map((seq) => remove(auditKey(seq))) });
    expect((await read()).seqs).toEqual([...range(1, 100), ...range(201, 320)]);
  });
});
