import { describe, expect, test } from '@jest/globals';
import { ChainVerifier, EMPTY_CHAIN } from '../audit/index.ts';
import { absent, EtcdError, put, type Write } from '../etcd/index.ts';
import { AUDIT_HEAD_KEY, AUDIT_PREFIX, auditHeadKey, auditKey } from '../records/index.ts';
import { MemoryEtcd, settle } from '../testing/index.ts';
import { AuditLog, headFrom, type AuditedChange } from './audit-log.ts';

const signal = new AbortController().signal;
const value = Uint8Array.of(1);

function change(key: string, over: Partial<AuditedChange> = {}): AuditedChange {
  return {
    when: [absent(key)],
    then: [put(key, value)],
    facts: { timeMs: 1, caller: 'c', method: 'm', subject: key, detail: {} },
    ...over,
  };
}

/** Verifies the chain up to the head in etcd, and returns the subjects of its entries. */
async function verified(etcd: MemoryEtcd): Promise<readonly string[]> {
  const head = headFrom(await etcd.get(AUDIT_HEAD_KEY, { signal }));
  const { entries } = await etcd.list(AUDIT_PREFIX, { signal });
  const verifier = new ChainVerifier(EMPTY_CHAIN);
  const subjects = entries.map((entry) => verifier.next(entry.value).subject);
  verifier.verifyHead(head);
  return subjects;
}

describe('AuditLog', () => {
  test('commits a change and its entry in one transaction', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    const first = await log.commit(change('a'), signal);
    expect(first).toEqual({ kind: 'committed', revision: etcd.revision });
    expect(await etcd.get('a', { signal })).toMatchObject({ modRevision: etcd.revision });
    expect(await verified(etcd)).toEqual(['a']);
  });

  test('writes neither the change nor its entry when a condition does not hold', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    await log.commit(change('a'), signal);
    const { revision } = etcd;
    expect(await log.commit(change('a'), signal)).toEqual({ kind: 'overtaken' });
    expect(etcd.revision).toBe(revision);
    expect(await verified(etcd)).toEqual(['a']);
  });

  test('commits changes that arrive during a transaction together in the next one', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    let transactions = 0;
    etcd.onCommit = () => void transactions++;
    const keys = Array.from({ length: 21 }, (_, i) => `k${i}`);
    const results = await Promise.all(keys.map((key) => log.commit(change(key), signal)));
    expect(results.every(({ kind }) => kind === 'committed')).toBe(true);
    expect(transactions).toBe(2);
    expect(await verified(etcd)).toEqual(keys);
  });

  test('commits the other changes of a batch when one fails', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    await log.commit(change('b'), signal);
    const lost: Write = { kind: 'put', key: 'z', value, leaseId: 99n };
    const results = await Promise.allSettled([
      log.commit(change('a'), signal),
      log.commit(change('b'), signal),
      log.commit(change('c'), signal),
      log.commit(change('z', { then: [lost] }), signal),
      log.commit(change('d'), signal),
    ]);
    expect(results).toMatchObject([
      { value: { kind: 'committed' } },
      { value: { kind: 'overtaken' } },
      { value: { kind: 'committed' } },
      { reason: { code: 'etcd-lease-gone' } },
      { value: { kind: 'committed' } },
    ]);
    expect(await verified(etcd)).toEqual(['b', 'a', 'c', 'd']);
  });

  test('commits two changes of the same key one after the other', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    await log.commit(change('x'), signal);
    const results = await Promise.all([
      log.commit(change('a'), signal),
      log.commit(change('a'), signal),
      log.commit(change('b', { when: [absent('a')] }), signal),
    ]);
    expect(results.map(({ kind }) => kind)).toEqual(['committed', 'overtaken', 'overtaken']);
    expect(await verified(etcd)).toEqual(['x', 'a']);
  });

  test('writes one chain when three writers append at the same time', async () => {
    const etcd = new MemoryEtcd();
    const logs = [1, 2, 3].map(() => new AuditLog({ etcd }));
    const keys = Array.from({ length: 60 }, (_, i) => `k${i}`);
    await Promise.all(keys.map(async (key, i) => logs[i % 3]?.commit(change(key), signal)));
    expect((await verified(etcd)).toSorted()).toEqual(keys.toSorted());
  });

  test('rejects waiting changes during an outage, and reads the head again afterwards', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    await log.commit(change('a'), signal);
    etcd.outage = new EtcdError('etcd-unavailable', 'testing');
    await expect(log.commit(change('b'), signal)).rejects.toMatchObject({ code: 'etcd-unavailable' });
    etcd.outage = undefined;
    await new AuditLog({ etcd }).commit(change('c'), signal);
    await log.commit(change('d'), signal);
    expect(await verified(etcd)).toEqual(['a', 'c', 'd']);
  });

  test('skips a waiting change when its signal fires', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd });
    const stop = new AbortController();
    const first = log.commit(change('a'), signal);
    const second = log.commit(change('b'), stop.signal);
    stop.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    await first;
    await settle();
    expect(await verified(etcd)).toEqual(['a']);
  });

  test('a full log of requests causes no deletion in the log of decisions', async () => {
    const etcd = new MemoryEtcd();
    const decisions = new AuditLog({ etcd });
    const requests = new AuditLog({ etcd, log: 'requests', maxEntries: 3 });
    await decisions.commit(change('a'), signal);
    for (let i = 1; i <= 8; i++) await requests.commit(change(`k${i}`), signal);
    await decisions.commit(change('b'), signal);
    expect(await verified(etcd)).toEqual(['a', 'b']);
    const { entries } = await etcd.list('audit-requests/', { signal });
    expect(entries.map(({ key }) => key)).toEqual([6, 7, 8].map((seq) => auditKey(seq, 'requests')));
    const head = headFrom(await etcd.get(auditHeadKey('requests'), { signal }));
    expect(head).toMatchObject({ seq: 8, firstSeq: 6 });
  });

  test('deletes the oldest entries and keeps the chain of the others valid', async () => {
    const etcd = new MemoryEtcd();
    const log = new AuditLog({ etcd, maxEntries: 3 });
    for (let i = 1; i <= 8; i++) await log.commit(change(`k${i}`), signal);
    const { entries } = await etcd.list(AUDIT_PREFIX, { signal });
    expect(entries.map(({ key }) => key)).toEqual([6, 7, 8].map((seq) => auditKey(seq)));
    expect(headFrom(await etcd.get(AUDIT_HEAD_KEY, { signal }))).toMatchObject({ seq: 8, firstSeq: 6 });
  });
});
