import { currentValue } from '../../internal/event/index.ts';
import { describe, expect, test } from '@jest/globals';
import { createMemoryLogger } from '../../internal/testing/index.ts';
import { Enrolment, TRANSITIONS, type EnrolmentHandlers, type EnrolmentState } from './enrolment.ts';

const never = new AbortController().signal;
const membership = { nodeId: 'n' };
const unexpected = (): Promise<never> => Promise.reject(new Error('not expected'));
const handlers: EnrolmentHandlers<typeof membership> = {
  New: () => Promise.resolve({ to: 'CreatingCluster' }),
  CreatingCluster: () => Promise.resolve({ to: 'Running', membership }),
  Joining: unexpected,
  Resuming: unexpected,
};

function create(changes: Partial<EnrolmentHandlers<typeof membership>> = {}) {
  const { log, records } = createMemoryLogger('enrolment');
  return { enrolment: new Enrolment({ handlers: { ...handlers, ...changes }, log }), records };
}

describe('Enrolment', () => {
  test('reports the states New, CreatingCluster and Running once, in this order', async () => {
    const { enrolment, records } = create();
    const states: (string | undefined)[] = [];
    const note = (): unknown => states.push(currentValue(enrolment.status)?.state);
    note();
    using _noting = enrolment.status.subscribe(note);
    await enrolment.run(never);
    expect(states).toEqual(['New', 'CreatingCluster', 'Running']);
    expect(records.map(({ fields }) => `${String(fields['from'])}→${String(fields['to'])}`)).toEqual([
      'New→CreatingCluster',
      'CreatingCluster→Running',
    ]);
    expect(await enrolment.finished(never)).toBe(membership);
  });

  test('an illegal transition fails enrolment, and the log names the states before and after', async () => {
    const { enrolment, records } = create({ New: () => Promise.resolve({ to: 'Running', membership }) });
    await enrolment.run(never);
    await expect(enrolment.finished(never)).rejects.toMatchObject({
      code: 'enrolment-illegal-transition',
      message: 'transition New → Running not allowed',
    });
    expect(records.at(-1)?.fields).toMatchObject({ from: 'New', to: 'Failed' });
  });

  test('run() refuses a second call without side effects, after Running and after Failed', async () => {
    let calls = 0;
    const counted = { New: () => (calls++, Promise.resolve({ to: 'CreatingCluster' as const })) };
    for (const CreatingCluster of [handlers.CreatingCluster, unexpected]) {
      calls = 0;
      const { enrolment } = create({ ...counted, CreatingCluster });
      await enrolment.run(never);
      await expect(enrolment.run(never)).rejects.toMatchObject({ code: 'enrolment-run-twice' });
      expect(calls).toBe(1);
    }
  });

  test('an error of a handler ends in Failed; callers that waited before and callers that wait afterwards get the error', async () => {
    const { enrolment } = create({ CreatingCluster: () => Promise.reject(new Error('disk on fire')) });
    const before = Array.from({ length: 50 }, () =>
      enrolment.finished(never).catch((error: unknown) => error),
    );
    await enrolment.run(never);
    const after = Array.from({ length: 50 }, () =>
      enrolment.finished(never).catch((error: unknown) => error),
    );
    const reasons = new Set(await Promise.all([...before, ...after]));
    expect(reasons.size).toBe(1);
    expect([...reasons][0]).toMatchObject({ code: 'enrolment-step-failed' });
  });

  test('a handler that returns without a transition is reported as stuck', async () => {
    const { enrolment } = create({ New: () => Promise.resolve({ to: 'New' } as never) });
    await enrolment.run(never);
    await expect(enrolment.finished(never)).rejects.toMatchObject({ code: 'enrolment-stuck' });
  });

  test('an aborted caller rejects and the others keep waiting', async () => {
    const { enrolment } = create();
    const abort = new AbortController();
    const aborted = enrolment.finished(abort.signal);
    const other = enrolment.finished(never);
    abort.abort(new Error('gone'));
    await expect(aborted).rejects.toThrow('gone');
    await enrolment.run(never);
    expect(await other).toBe(membership);
  });

  test('the table allows exactly the designed transitions', () => {
    const moves = (Object.keys(TRANSITIONS) as EnrolmentState[]).flatMap((from) =>
      TRANSITIONS[from].map((to) => `${from}→${to}`),
    );
    expect(moves.sort()).toEqual(
      [
        'New→CreatingCluster',
        'New→Joining',
        'New→Resuming',
        'New→Failed',
        'CreatingCluster→Running',
        'CreatingCluster→Failed',
        'Joining→Running',
        'Joining→Failed',
        'Resuming→Running',
        'Resuming→Failed',
      ].sort(),
    );
  });
});
