import { describe, expect, test } from '@jest/globals';
import { EMPTY_CHAIN, extendChain, type ChainHead } from '../../internal/audit/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../internal/crypto/index.ts';
import type { AuditLogName } from '../../internal/records/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { readText } from '../../internal/file/index.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runAuditExport, runAuditVerify } from './audit.ts';
import { Checkpoints, parseExport, renderExport, verifyChain, type ChainEntry } from './audit-log.ts';

function chain(count: number, what = 'DecideJoin', log: AuditLogName = 'decisions') {
  let head: ChainHead = EMPTY_CHAIN;
  const shown: ChainEntry[] = [];
  for (let seq = 1; seq <= count; seq++) {
    const facts = { timeMs: seq, caller: 'operator:owner', method: what, subject: `n${seq}`, detail: {} };
    const next = extendChain(head, facts, log);
    head = next.head;
    shown.push({ log, seq, record: next.record });
  }
  return { shown, head };
}

async function harness() {
  const keyPem = generateEd25519Key();
  const files = new MemoryFiles();
  await files.makeDirectory('/harness');
  const place = { workspace: '/harness', clusterId: 'c1', log: 'decisions' as const };
  const owner = { keyPem, pubKey: ed25519PubKeyFrom(keyPem) ?? new Uint8Array() };
  return { files, owner, checkpoints: new Checkpoints(files, place, owner) };
}

const broken = (code: string): unknown => expect.objectContaining({ code });

describe('verifyChain()', () => {
  test('verifies a complete chain and its checkpoints', async () => {
    const { checkpoints } = await harness();
    const { shown, head } = chain(5);
    await checkpoints.add(chain(3).head, { epoch: 1, nowMs: 0 });
    const verified = verifyChain(shown, await checkpoints.list(), { claimed: head, log: 'decisions' });
    expect(verified).toMatchObject({ head, matchedCheckpoints: 1 });
    expect(verified.entries.map(({ subject }) => subject)).toEqual(['n1', 'n2', 'n3', 'n4', 'n5']);
  });

  test('starts from a checkpoint if older entries are deleted, and fails without one', async () => {
    const { checkpoints } = await harness();
    const { shown, head } = chain(5);
    const kept = shown.slice(3);
    expect(() => verifyChain(kept, [], { claimed: head, log: 'decisions' })).toThrow(
      broken('audit-log-altered'),
    );
    await checkpoints.add(chain(3).head, { epoch: 1, nowMs: 0 });
    expect(
      verifyChain(kept, await checkpoints.list(), { claimed: head, log: 'decisions' }).entries,
    ).toHaveLength(2);
  });

  test.each([
    { name: 'a missing entry', change: (all: ChainEntry[]) => all.splice(2, 1) },
    {
      name: 'two swapped entries',
      change: (all: ChainEntry[]) => all.splice(1, 2, ...all.slice(1, 3).reverse()),
    },
    {
      name: 'an altered entry',
      change: (all: ChainEntry[]) =>
        all.splice(1, 1, {
          log: 'decisions',
          seq: 2,
          record: chain(2, 'Other').shown[1]?.record ?? new Uint8Array(),
        }),
    },
    { name: 'a truncated chain', change: (all: ChainEntry[]) => all.pop() },
  ])('reports $name', ({ change }) => {
    const { shown, head } = chain(5);
    change(shown);
    expect(() => verifyChain(shown, [], { claimed: head, log: 'decisions' })).toThrow(
      broken('audit-chain-broken'),
    );
  });

  test('refuses a rewritten chain, and a chain that ends before a checkpoint', async () => {
    const { checkpoints } = await harness();
    await checkpoints.add(chain(3).head, { epoch: 1, nowMs: 0 });
    const known = await checkpoints.list();
    const other = chain(5, 'Other');
    expect(() => verifyChain(other.shown, known, { claimed: other.head, log: 'decisions' })).toThrow(
      broken('audit-log-altered'),
    );
    const short = chain(2);
    expect(() => verifyChain(short.shown, known, { claimed: short.head, log: 'decisions' })).toThrow(
      broken('audit-log-altered'),
    );
  });
});

describe('the log of requests', () => {
  const requests = { claimed: undefined, log: 'requests' } as const;
  const { shown, head } = chain(5, 'Attest', 'requests');

  test('is verified from its oldest entry, without a checkpoint', () => {
    expect(verifyChain(shown.slice(2), [], { ...requests, claimed: head }).entries).toHaveLength(3);
    expect(() => verifyChain(shown.slice(2).toSpliced(1, 1), [], requests)).toThrow(
      broken('audit-chain-broken'),
    );
  });

  test('is not accepted as the log of decisions, and the log of decisions is not accepted as the log of requests', async () => {
    expect(() => verifyChain(shown, [], { claimed: head, log: 'decisions' })).toThrow(
      broken('audit-chain-broken'),
    );
    expect(() => verifyChain(chain(5).shown, [], requests)).toThrow(broken('audit-chain-broken'));
  });

  test('has checkpoints of its own, which are not valid for the log of decisions', async () => {
    const { files, owner } = await harness();
    const place = { workspace: '/harness', clusterId: 'c1' };
    const own = new Checkpoints(files, { ...place, log: 'requests' }, owner);
    await own.add(chain(3, 'Attest', 'requests').head, { epoch: 1, nowMs: 0 });
    const known = await own.list();
    expect(verifyChain(shown.slice(1), known, requests).matchedCheckpoints).toBe(1);
    const other = chain(5, 'Other', 'requests');
    expect(() => verifyChain(other.shown.slice(1), known, requests)).toThrow(broken('audit-log-altered'));
    const text = await files.read('/harness/audit/requests/0000000000000003.json', 9999);
    await files.writeAtomic('/harness/audit/0000000000000003.json', text ?? '');
    const decisions = new Checkpoints(files, { ...place, log: 'decisions' }, owner);
    await expect(decisions.list()).rejects.toEqual(broken('audit-checkpoint-invalid'));
  });
});

describe('Checkpoints', () => {
  test('list() refuses checkpoints that were altered or signed by another key', async () => {
    const { files, checkpoints } = await harness();
    await checkpoints.add(chain(3).head, { epoch: 1, nowMs: 0 });
    const other = await harness();
    const text = Buffer.from(
      (await files.read('/harness/audit/0000000000000003.json', 9999)) ?? [],
    ).toString();
    await other.files.makeDirectory('/harness/audit');
    await other.files.writeAtomic('/harness/audit/0000000000000003.json', text);
    await expect(other.checkpoints.list()).rejects.toEqual(broken('audit-checkpoint-invalid'));
    await files.writeAtomic('/harness/audit/0000000000000003.json', text.replace('"seq":3', '"seq":4'));
    await expect(checkpoints.list()).rejects.toEqual(broken('audit-checkpoint-invalid'));
  });
});

describe('an audit export', () => {
  test('is verified without a workspace; the result shows that it was not compared with checkpoints', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/nowhere');
    await files.writeAtomic('/nowhere/export', renderExport(chain(3).shown));
    const context = contextOf(files, '/nowhere');
    await runAuditVerify(context, '/nowhere/export');
    expect(context.host.answered).toMatchObject({ entries: 3, isCompared: false });
    await files.writeAtomic('/nowhere/export', renderExport(chain(3).shown.toSpliced(1, 1)));
    await expect(runAuditVerify(context, '/nowhere/export')).rejects.toEqual(broken('audit-chain-broken'));
  });

  test('is unchanged after parsing', () => {
    const { shown, head } = chain(3);
    expect(
      verifyChain(parseExport(renderExport(shown)), [], { claimed: head, log: 'decisions' }).head,
    ).toEqual(head);
  });

  test('replaces an earlier one unless the cluster has deleted its entries since', async () => {
    let seqs = chain(2);
    let kept = seqs.shown;
    await using cluster = await createCuratorHarness(
      {},
      {
        listAudit: async function* ({ requests }) {
          const { shown, head } = requests ? chain(1, 'Attest', 'requests') : { ...seqs, shown: kept };
          for (const { seq, record } of shown)
            yield { message: { case: 'entry', value: { seq: BigInt(seq), record } } };
          const value = { seq: BigInt(head.seq), hash: head.hash, firstSeq: 1n, epoch: 1n, requests };
          yield { message: { case: 'head', value } };
        },
      },
    );
    const { files, owner } = cluster;
    await runAuditExport(owner, '/owner/export');
    seqs = chain(4);
    kept = seqs.shown;
    await runAuditExport(owner, '/owner/export');
    const text = await readText(files, '/owner/export');
    expect(parseExport(text ?? '')).toHaveLength(5);
    kept = seqs.shown.slice(2);
    await expect(runAuditExport(owner, '/owner/export')).rejects.toEqual(broken('app-file-exists'));
    expect(await readText(files, '/owner/export')).toBe(text);
  });

  test('has the entries of both logs', async () => {
    const files = new MemoryFiles();
    await files.makeDirectory('/nowhere');
    const both = [...chain(3).shown, ...chain(4, 'Attest', 'requests').shown];
    await files.writeAtomic('/nowhere/export', renderExport(both));
    const context = contextOf(files, '/nowhere');
    await runAuditVerify(context, '/nowhere/export');
    expect(context.host.answered).toMatchObject({ entries: 3, requests: { entries: 4 } });
  });

  test.each(['hello', 'e30=', '%%%', ''])('is refused if it is not an export: %j', (text) => {
    expect(() => parseExport(text)).toThrow(broken('audit-export-invalid'));
  });

  test.each(['hello', 'e30=', '%%%'])('is refused for an invalid line after an entry: %s', (text) => {
    expect(() => parseExport(`${renderExport(chain(1).shown)}${text}`)).toThrow(broken('audit-chain-broken'));
  });
});
