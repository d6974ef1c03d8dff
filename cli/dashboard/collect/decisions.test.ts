import { describe, expect, test } from '@jest/globals';
import { EMPTY_CHAIN, extendChain } from '../../../internal/audit/index.ts';
import type { CuratorClients } from '../../cluster/index.ts';
import { RecentDecisions } from './decisions.ts';

/** An audit log that answers like a curator. */
function createLog(length: number) {
  const entries: { readonly seq: number; readonly hash: string; readonly record: Uint8Array }[] = [];
  let head = EMPTY_CHAIN;
  const append = (): void => {
    const facts = { timeMs: 1, caller: 'operator:ann', method: 'M', subject: '', detail: {} };
    const next = extendChain(head, facts);
    head = next.head;
    entries.push({ ...next.head, record: next.record });
  };
  for (let count = 0; count < length; count++) append();
  let sent = 0;
  const operatorApi = {
    listAudit: async function* ({ afterSeq }: { readonly afterSeq: bigint }) {
      for (const { seq, record } of entries) {
        if (BigInt(seq) <= afterSeq) continue;
        sent++;
        yield { message: { case: 'entry', value: { seq: BigInt(seq), record } } };
      }
      yield { message: { case: 'head', value: { seq: BigInt(head.seq), hash: head.hash } } };
    },
  };
  return {
    clients: { operatorApi } as unknown as CuratorClients,
    append,
    entries,
    get sent() {
      return sent;
    },
  };
}

describe('RecentDecisions.read()', () => {
  test('reads the newest hundred entries, then only what is new', async () => {
    const log = createLog(250);
    const recent = new RecentDecisions();
    expect((await recent.read(log.clients)).map(({ seq }) => seq).slice(0, 2)).toEqual([151, 152]);
    log.append();
    expect((await recent.read(log.clients)).at(-1)?.seq).toBe(251);
    expect(log.sent).toBe(101);
  });

  test('refuses an entry that does not follow the one before', async () => {
    const log = createLog(5);
    const recent = new RecentDecisions();
    await recent.read(log.clients);
    const other = createLog(9);
    log.append();
    log.entries[5] = { ...log.entries[5]!, record: other.entries[2]!.record };
    await expect(recent.read(log.clients)).rejects.toMatchObject({ code: 'audit-chain-broken' });
  });

  test('refuses a log that lost its last entries', async () => {
    const recent = new RecentDecisions();
    await recent.read(createLog(5).clients);
    await expect(recent.read(createLog(3).clients)).rejects.toMatchObject({ code: 'audit-chain-broken' });
  });

  test('reads an empty log', async () => {
    expect(await new RecentDecisions().read(createLog(0).clients)).toEqual([]);
  });
});
