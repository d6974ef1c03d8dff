import { expect, test } from '@jest/globals';
import type { AuditLog } from '../../../internal/auditlog/index.ts';
import { FakeClock } from '../../../internal/testing/index.ts';
import type { WriteBudget } from './write-budget.ts';
import { RefusalAudit } from './refusal-audit.ts';

const never = new AbortController().signal;
/** The number of kinds that RefusalAudit counts separately. */
const KINDS = 1_024;

test('RefusalAudit remembers a limited number of kinds and forgets the oldest', async () => {
  let written = 0;
  const requests = { commit: () => Promise.resolve(++written) } as unknown as AuditLog;
  const budget = { tryTake: () => true, takeDropped: () => 0 } as unknown as WriteBudget;
  const refusals = new RefusalAudit({ requests, budget, clock: new FakeClock(), nodeId: 'n' });
  const refuse = (subject: string): Promise<void> =>
    refusals.write({ method: 'Attest', subject, code: 'no', detail: {}, source: '192.0.2.1' }, never);
  await refuse('first');
  for (let i = 1; i < KINDS; i++) await refuse(`${i}`);
  await refuse('first');
  // the repeated refusal is only counted, because its kind was written a moment ago
  expect(written).toBe(KINDS);
  await refuse('one more');
  await refuse('first');
  expect(written).toBe(KINDS + 2);
});
