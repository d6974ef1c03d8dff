import { describe, expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { FakeClock, settle } from '../../internal/testing/index.ts';
import { untilInitIsOver } from './until-init-is-over.ts';

function create() {
  const clock = new FakeClock();
  const job = { acknowledged: new EventValue<unknown>() };
  const enrolment = { status: new EventValue<{ readonly state: string }>() };
  const stop = new AbortController();
  let isOver = false;
  const over = untilInitIsOver({ job, enrolment, clock }, stop.signal).finally(() => (isOver = true));
  const left = () => [clock.sleeping, job.acknowledged.waiting, enrolment.status.waiting];
  return { clock, job, enrolment, stop, over, isOver: () => isOver, left };
}

const NOTHING = [0, 0, 0];

describe('untilInitIsOver()', () => {
  test('resolves at the owner’s acknowledgement, even after a week, and leaves no timer or watcher', async () => {
    const { job, over, clock, isOver, left } = create();
    await clock.advance(7 * 24 * 60 * 60_000);
    expect(isOver()).toBe(false);
    job.acknowledged.set(true);
    await over;
    expect(left()).toEqual(NOTHING);
  });

  test('resolves some seconds after a join acquired the node lock, so that a pending init gets its refusal', async () => {
    const { enrolment, over, clock, isOver, left } = create();
    enrolment.status.set({ state: 'Joining' });
    await settle();
    enrolment.status.set({ state: 'Running' });
    await clock.advance(9_000);
    expect(isOver()).toBe(false);
    await clock.advance(1_000);
    await over;
    expect(left()).toEqual(NOTHING);
  });

  test('rejects with the reason of the signal', async () => {
    const { stop, over, left } = create();
    const outcome = expect(over).rejects.toThrow('the agent stops');
    stop.abort(new Error('the agent stops'));
    await outcome;
    expect(left()).toEqual(NOTHING);
  });
});
