import { afterEach, describe, expect, test } from '@jest/globals';
import { put } from '../../../internal/etcd/index.ts';
import {
  AUDIT_PREFIX,
  JOINS_PREFIX,
  nodeNameKey,
  NODES_PREFIX,
  records,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { relayedPathOf } from '../../../internal/rpc/index.ts';
import { settle } from '../../../internal/testing/index.ts';
import { WriteBudget } from '../requests/write-budget.ts';
import { at, BUDGET, AdmissionHarness, listing, applicant, MINUTE_MS, EVIDENCE } from './fake-admissions.ts';
import { MAX_OPEN_REQUESTS } from '../requests/open-requests.ts';
import type { JoinPolicy } from './decide-join.ts';

const never = new AbortController().signal;
const coded = (code: string): unknown => expect.objectContaining({ code });

let open: AdmissionHarness | undefined;
afterEach(() => open?.[Symbol.dispose]());

function harnessWith(policy: Partial<JoinPolicy> = {}): AdmissionHarness {
  return (open = new AdmissionHarness(policy));
}

/** Prefix of the log of requests. */
const REQUESTS = 'audit-requests/';
const addressOf = (index: number): string => `10.${index % 251}.${Math.floor(index / 251) % 251}.1`;

describe('the write budget of unauthenticated machines', () => {
  test('limits requests, traces and audit entries of 10,000 machines with different keys and addresses', async () => {
    const harness = harnessWith();
    for (let i = 0; i < 10_000; i++)
      await harness.admissions.decide(at(applicant(i), addressOf(i)), never).catch(() => undefined);
    const counts = await Promise.all([JOINS_PREFIX, 'traces/', REQUESTS].map((each) => harness.keys(each)));
    expect(counts.map(({ length }) => length)).toEqual([
      MAX_OPEN_REQUESTS,
      MAX_OPEN_REQUESTS,
      MAX_OPEN_REQUESTS,
    ]);
    // A machine that the operators listed is admitted in spite of the used-up budget.
    const known = applicant(20_000);
    harness.decree(listing(20_000));
    expect(await harness.admissions.decide(at(known, addressOf(1)), never)).toMatchObject({
      kind: 'admitted',
    });
  }, 60_000);

  test('limits the share of one address', async () => {
    const harness = harnessWith();
    const tell = (index: number, address: string) =>
      harness.admissions.decide(at(applicant(index), address), never).then(
        ({ kind }) => kind,
        (error: unknown) => (error as { readonly code: string }).code,
      );
    const answers: string[] = [];
    for (let i = 0; i < 400; i++) answers.push(await tell(i, '203.0.113.9'));
    // One address may use a quarter of the budget.
    expect(answers.filter((answer) => answer === 'waiting').length).toBe(300);
    expect(answers.at(-1)).toBe('join-busy');
    expect(await tell(9_000, '10.0.0.1')).toBe('waiting');
    await harness.clock.advance(BUDGET.periodMs);
    expect(await tell(399, '203.0.113.9')).toBe('waiting');
  });

  test('refused and waiting machines cannot push decisions out of the audit log', async () => {
    const harness = harnessWith(listing(1));
    await harness.admissions.decide(at(applicant(1), '192.0.2.1'), never);
    const decisions = await harness.keys(AUDIT_PREFIX);
    expect(decisions).toHaveLength(1);
    harness.decree({ policy: 'approve' });
    for (let i = 2; i < 200; i++) await harness.admissions.decide(at(applicant(i), addressOf(i)), never);
    for (let i = 0; i < 200; i++) {
      const address = addressOf(i);
      const refusal = { method: 'Attest', subject: `address:${address}`, code: 'quote-invalid', detail: {} };
      await harness.refusals.write({ ...refusal, source: address }, never);
    }
    expect(await harness.keys(AUDIT_PREFIX)).toEqual(decisions);
    expect(await harness.keys(REQUESTS)).toHaveLength(398);
  });

  test('WriteBudget divides the share of a relay among its clients', () => {
    const { clock } = harnessWith();
    const budget = new WriteBudget({ clock, size: 160, periodMs: MINUTE_MS });
    const take = (times: number, client: string) =>
      Array.from({ length: times }, () => budget.tryTake(relayedPathOf('192.0.2.1', client)));
    // A relay gets a quarter of the budget (40), and each of its clients at most half of that.
    expect(take(100, '203.0.113.9').filter(Boolean)).toHaveLength(20);
    expect(take(1, '198.51.100.7')).toEqual([true]);
    for (let i = 0; i < 100; i++) take(1, `10.${i}.0.1`);
    expect(budget.tryTake(relayedPathOf('192.0.2.1', '11.0.0.1'))).toBe(false);
    expect(budget.tryTake('192.0.3.1')).toBe(true);
  });

  test('RefusalAudit counts repeated refusals and writes one entry for each kind and minute', async () => {
    const harness = harnessWith();
    const refusal = { method: 'Attest', subject: 'address:203.0.113.9', code: 'quote-invalid', detail: {} };
    const refuse = () => harness.refusals.write({ ...refusal, source: '203.0.113.9' }, never);
    for (let i = 0; i < 10_000; i++) await refuse();
    expect((await harness.keys(REQUESTS)).length).toBe(1);
    await harness.clock.advance(MINUTE_MS);
    await refuse();
    const { entries } = await harness.etcd.list(REQUESTS, { signal: never });
    expect(entries.length).toBe(2);
    expect(
      records.audit.decode(entries[1]?.key ?? '', entries[1]?.value ?? new Uint8Array()).detail,
    ).toMatchObject({ code: 'quote-invalid', repeated: 9_999 });
  });

  test('RefusalAudit limits the entries of refusals from 10,000 addresses and counts the rest', async () => {
    const harness = harnessWith();
    const refuse = (i: number) => {
      const address = addressOf(i);
      const refusal = { method: 'Attest', subject: `address:${address}`, code: 'quote-invalid', detail: {} };
      return harness.refusals.write({ ...refusal, source: address }, never);
    };
    for (let i = 0; i < 10_000; i++) await refuse(i);
    expect((await harness.keys(REQUESTS)).length).toBe(BUDGET.size);
    await harness.clock.advance(BUDGET.periodMs);
    await refuse(0);
    const { entries } = await harness.etcd.list(REQUESTS, { signal: never });
    const last = entries.at(-1);
    expect(records.audit.decode(last?.key ?? '', last?.value ?? new Uint8Array()).detail).toMatchObject({
      alsoNotWritten: 10_000 - BUDGET.size,
    });
  });
});

describe('open requests', () => {
  test('of inactive machines are evicted if there are too many requests; those of active machines stay', async () => {
    const harness = harnessWith();
    for (let i = 0; i < MAX_OPEN_REQUESTS; i++)
      await harness.admissions.decide(at(applicant(i), addressOf(i)), never);
    await harness.clock.advance(11 * MINUTE_MS);
    await expect(harness.admissions.decide(at(applicant(5_000), '10.9.9.9'), never)).rejects.toEqual(
      coded('join-busy'),
    );
    for (let i = 1; i < MAX_OPEN_REQUESTS; i++)
      await harness.admissions.decide(at(applicant(i), addressOf(i)), never);
    await harness.clock.advance(20 * MINUTE_MS);
    expect(await harness.admissions.decide(at(applicant(5_000), '10.9.9.9'), never)).toMatchObject({
      kind: 'waiting',
    });
    const joins = await harness.keys(JOINS_PREFIX);
    expect(joins.length).toBe(MAX_OPEN_REQUESTS);
    expect(joins).not.toContain(`${JOINS_PREFIX}node-0`);
    expect(await harness.keys('traces/')).not.toContain('traces/node-0');
  }, 60_000);

  test('of a machine with a wrong clock contain the newest offset, and are written once for each offset', async () => {
    const harness = harnessWith();
    const ask = async (clockOffsetMs: number): Promise<unknown> => {
      const late = applicant(1, {}, { clockOffsetMs });
      await expect(harness.admissions.decide(at(late), never)).rejects.toEqual(coded('join-clock-off'));
      const key = records.join.key('node-1');
      const entry = await harness.etcd.get(key, { signal: never });
      const { claimed, attempts } = records.join.decode(key, entry?.value ?? new Uint8Array());
      return [claimed.clockOffsetMs, attempts];
    };
    expect(await ask(60 * MINUTE_MS)).toEqual([60 * MINUTE_MS, 1]);
    expect(await ask(60 * MINUTE_MS + 300)).toEqual([60 * MINUTE_MS, 1]);
    expect(await ask(-60 * MINUTE_MS)).toEqual([-60 * MINUTE_MS, 2]);
  });

  test('of machines that stopped calling are deleted with their traces; those of members and active machines stay', async () => {
    const harness = harnessWith();
    await harness.admissions.decide(at(applicant(1)), never);
    await harness.admissions.decide(at(applicant(2)), never);
    const listed = applicant(3);
    harness.decree({ ...listing(3), policy: 'approve' });
    await harness.admissions.decide(at(listed), never);
    const { identity } = listed.machine;
    await harness.commits.commit(listed.nodeId, { ...EVIDENCE, identity }, never);
    for (let hour = 0; hour < 25; hour++) {
      await harness.clock.advance(60 * MINUTE_MS);
      await harness.admissions.decide(at(applicant(2)), never);
    }
    await settle();
    expect(await harness.keys(JOINS_PREFIX)).toEqual(
      ['node-2', 'node-3'].map((id) => `${JOINS_PREFIX}${id}`),
    );
    expect(await harness.keys('traces/')).toEqual(['traces/node-2', 'traces/node-3']);
  });
});

describe('the write budget of admitted machines', () => {
  test('limits a machine that repeatedly uses new keys to one request and a fixed number of attempts', async () => {
    const harness = harnessWith({ policy: 'auto' });
    const { identity } = applicant(1).machine;
    const shown = { identity, proof: 'endorsed', profile: 'measured' } as const;
    const tell = (index: number) =>
      harness.admissions.decide(at(applicant(index, shown)), never).then(
        ({ kind }) => kind,
        (error: unknown) => (error as { readonly code: string }).code,
      );
    const answers: string[] = [];
    for (let i = 1; i <= 40; i++) {
      answers.push(await tell(i));
      await settle();
    }
    expect(answers.filter((answer) => answer === 'admitted').length).toBe(16);
    expect(answers.at(-1)).toBe('join-busy');
    const counts = await Promise.all(
      [JOINS_PREFIX, 'traces/', AUDIT_PREFIX].map((each) => harness.keys(each)),
    );
    expect(counts.map(({ length }) => length)).toEqual([1, 1, 16]);
    await harness.clock.advance(10 * MINUTE_MS);
    expect(await tell(41)).toBe('admitted');
  });

  test('does not evict a request if an operator decides about it between the read and the write', async () => {
    const harness = harnessWith();
    await harness.admissions.decide(at(applicant(1)), never);
    await settle();
    const key = records.join.key('node-1');
    const entry = await harness.etcd.get(key, { signal: never });
    const record = records.join.decode(key, entry?.value ?? new Uint8Array());
    const decision = { name: 'x', roles: [], labels: {}, by: 'operator:o', timeMs: 0, expiresMs: 1e15 };
    const approved = records.join.encode({ ...record, state: 'approved', decision });
    // The operator decides between the read and the write of the eviction.
    harness.etcd.onCommit = () => {
      harness.etcd.onCommit = () => undefined;
      harness.etcd.commitNow({ when: [], then: [put(key, approved)] });
    };
    const { identity } = applicant(1).machine;
    await harness.admissions.decide(at(applicant(2, { identity })), never).catch(() => undefined);
    await settle();
    const kept = await harness.etcd.get(key, { signal: never });
    expect(records.join.decode(key, kept?.value ?? new Uint8Array()).state).toBe('approved');
  });

  test('reports the operator’s decision to a repeated request, which does not overwrite that decision', async () => {
    const harness = harnessWith();
    await harness.admissions.decide(at(applicant(1)), never);
    const key = records.join.key('node-1');
    const entry = await harness.etcd.get(key, { signal: never });
    const record = records.join.decode(key, entry?.value ?? new Uint8Array());
    const decision = { name: 'x', roles: [], labels: {}, by: 'operator:o', timeMs: 0, expiresMs: 1e15 };
    harness.etcd.onCommit = () => {
      harness.etcd.onCommit = () => undefined;
      const approved = records.join.encode({ ...record, state: 'approved', decision });
      harness.etcd.commitNow({ when: [], then: [put(key, approved)] });
    };
    const again = applicant(1, {}, { name: 'another' });
    expect(await harness.admissions.decide(at(again), never)).toMatchObject({ kind: 'admitted' });
  });
});

describe('admission', () => {
  const proved = { proof: 'endorsed', profile: 'measured' } as const;
  const table = [
    { name: 'inventory, machine listed', policy: listing(1), asks: applicant(1), want: 'admitted' },
    {
      name: 'inventory, machine not listed',
      policy: listing(2),
      asks: applicant(1),
      want: 'join-unknown-machine',
    },
    { name: 'approve, no operator has decided', policy: {}, asks: applicant(1), want: 'waiting' },
    {
      name: 'auto, proved identity and measured software',
      policy: { policy: 'auto' },
      asks: applicant(1, proved),
      want: 'admitted',
    },
    {
      name: 'auto, unproved identity',
      policy: { policy: 'auto' },
      asks: applicant(1),
      want: 'join-identity-unproved',
    },
    {
      name: 'inventory, the machine requests more than the inventory assigns',
      policy: listing(1),
      asks: applicant(1, {}, { roles: ['ConsensusMember'] }),
      want: 'join-role-denied',
    },
  ] as const;

  test.each(table)('the policy decides about a request: $name: $want', async ({ policy, asks, want }) => {
    const harness = harnessWith(policy);
    const answer = harness.admissions.decide(at(asks), never);
    if (want.startsWith('join-')) await expect(answer).rejects.toEqual(coded(want));
    else expect((await answer).kind).toBe(want);
  });

  test.each(table)(
    'before a membership is stored, the policy decides again, independent of its first decision: $name: $want',
    async ({ policy, asks, want }) => {
      const harness = harnessWith(listing(1));
      const admitted = applicant(1, asks.machine, want === 'join-role-denied' ? {} : asks.claimed);
      await harness.admissions.decide(at(admitted), never);
      if (want === 'join-role-denied') {
        const key = records.join.key(asks.nodeId);
        const entry = await harness.etcd.get(key, { signal: never });
        const record = records.join.decode(key, entry?.value ?? new Uint8Array());
        const then = {
          kind: 'put',
          key,
          value: records.join.encode({ ...record, claimed: asks.claimed }),
        } as const;
        harness.etcd.commitNow({ when: [], then: [then] });
      }
      harness.decree(policy);
      const { identity } = asks.machine;
      const committed = harness.commits.commit(asks.nodeId, { ...EVIDENCE, identity }, never);
      if (want === 'admitted') expect(await committed).toMatchObject({ nodeId: asks.nodeId, state: 'UP' });
      else {
        await expect(committed).rejects.toEqual(coded(want === 'waiting' ? 'join-not-admitted' : want));
        expect(await harness.members()).toBe(0);
      }
    },
  );

  test.each([
    {
      name: 'the name',
      taken: () => put(nodeNameKey('w-1'), new TextEncoder().encode('node-9')),
      want: 'join-name-taken',
    },
    {
      name: 'the machine',
      taken: () =>
        put(
          records.identity.key(applicant(1).machine.identity),
          records.identity.encode({ version: 1, nodeId: 'node-9' }),
        ),
      want: 'join-identity-taken',
    },
    {
      name: 'its admission',
      taken: () => ({ kind: 'delete', key: records.join.key('node-1') }) as const,
      want: 'join-not-admitted',
    },
  ])(
    'before a membership is stored, the decision is made again if $name changed since the admission',
    async ({ taken, want }) => {
      const harness = harnessWith(listing(1));
      await harness.admissions.decide(at(applicant(1)), never);
      const { pubKeyDer, machine: known } = applicant(9);
      const admission = { ...known, decidedBy: 'operator:o', timeMs: 0 };
      const node: NodeRecord = {
        ...{ version: 1, nodeId: 'node-9', name: 'w-9', state: 'UP', roles: [], labels: {}, createdMs: 0 },
        pubKey: Buffer.from(pubKeyDer).toString('base64'),
        admission,
      };
      harness.etcd.onCommit = () => {
        harness.etcd.onCommit = () => undefined;
        harness.etcd.commitNow({
          when: [],
          then: [put(records.node.key('node-9'), records.node.encode(node))],
        });
        harness.etcd.commitNow({ when: [], then: [taken()] });
      };
      const { identity } = applicant(1).machine;
      const committed = harness.commits.commit('node-1', { ...EVIDENCE, identity }, never);
      await expect(committed).rejects.toEqual(coded(want));
      expect(await harness.keys(NODES_PREFIX)).toEqual([records.node.key('node-9')]);
    },
  );

  test('a refused machine creates no node, and gets the same answer when it asks again', async () => {
    const harness = harnessWith(listing(2));
    const answers: unknown[] = [];
    for (let i = 0; i < 3; i++) {
      await harness.admissions.decide(at(applicant(1)), never).catch((error: unknown) => answers.push(error));
      const { identity } = applicant(1).machine;
      await harness.commits.commit('node-1', { ...EVIDENCE, identity }, never).catch((error: unknown) => {
        answers.push(error);
      });
    }
    expect(answers).toEqual(Array.from({ length: 6 }, () => coded('join-unknown-machine')));
    expect(await harness.members()).toBe(0);
    expect((await harness.keys(REQUESTS)).length).toBe(1);
  });
});
