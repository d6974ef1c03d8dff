import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { untilAborted } from '../../../internal/cleanup/index.ts';
import { StateDiskError } from '../../../internal/statedisk/index.ts';
import { createMemoryLogger, FakeClock } from '../../../internal/testing/index.ts';
import { TpmError } from '../../../internal/tpm/index.ts';
import { DiskError } from '../../disk/index.ts';
import { JoinClientError } from '../../joinclient/index.ts';
import { openWithShare, type ShareWaitPorts } from './await-disk-share.ts';

const awaited = new DiskError('disk-share-awaited', 'asking the control planes');
const refused = new DiskError('disk-share-refused', 'asking 192.0.2.1:9090', {
  cause: new Error('join-share-not-member'),
});

let stop: AbortController;
beforeEach(() => {
  stop = new AbortController();
});
afterEach(() => stop.abort(new Error('the test is over')));

/** A machine whose questions have these answers, the last one again and again. */
function machine(...answers: readonly (DiskError | Error | 'opens' | 'hangs' | 'maps')[]) {
  const clock = new FakeClock();
  const { log, records } = createMemoryLogger();
  const shown: string[] = [];
  const events: string[] = [];
  const [serving, mapped] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let preempt: Parameters<ShareWaitPorts['serve']>[0] | undefined;
  let asked = 0;
  const ports: ShareWaitPorts = {
    ...{ clock, log, random: () => 0.5 },
    attempt: async (signal) => {
      const answer = answers[Math.min(asked++, answers.length - 1)];
      events.push('ask');
      if (answer === 'hangs') await untilAborted(signal).finally(() => events.push('aborted'));
      if (answer === 'maps') await mapped.promise;
      if (answer instanceof Error) throw answer;
      return 'opened';
    },
    serve: async (given, signal) => {
      events.push('serve');
      preempt = given;
      await Promise.race([serving.promise, untilAborted(signal)]).finally(() => events.push('closed'));
    },
    show: async (text) => void shown.push(await Promise.resolve(text)),
  };
  const outcome = openWithShare(ports, stop.signal).then(
    () => 'open',
    (error: unknown) => error,
  );
  return {
    ...{ clock, shown, events, outcome, serving, mapped, records },
    recover: (work: () => Promise<unknown>) => {
      if (preempt === undefined) throw new TypeError('nobody can recover the disk yet');
      return preempt(work);
    },
  };
}

describe('openWithShare()', () => {
  test('serves and shows nothing if a signer answers at once', async () => {
    const { outcome, events, shown } = machine('opens');
    expect(await outcome).toBe('open');
    expect([events, shown]).toEqual([['ask'], []]);
  });

  test('asks again with growing pauses of at most a minute, and says what it waits for, since when and why', async () => {
    const { clock, events, shown, records } = machine(awaited);
    await clock.advance(60_000);
    const first = events.filter((each) => each === 'ask').length;
    await clock.advance(3_600_000);
    const asked = events.filter((each) => each === 'ask').length - first;
    expect([first > 5, asked >= 3_600 / 60 - 2, asked <= 3_600 / 30]).toEqual([true, true, true]);
    expect(shown).toEqual([
      `waits for the cluster share of the state disk since 2026-01-01T00:00:00.000Z; last error: disk-share-awaited: asking the control planes. Fix: ${awaited.fix}`,
    ]);
    expect(records.at(-1)).toMatchObject({
      level: 'warn',
      message: 'state disk not opened with a cluster share, asking again',
    });
  });

  test('shows the refusal of a signer, and goes on asking slowly', async () => {
    const { clock, events, shown, outcome } = machine(awaited, refused, refused, 'opens');
    await clock.advance(10_000);
    expect(shown.at(-1)).toContain(
      'since 2026-01-01T00:00:00.000Z; last error: disk-share-refused: asking 192.0.2.1:9090: join-share-not-member',
    );
    await clock.advance(280_000);
    expect(events.filter((each) => each === 'ask')).toHaveLength(2);
    await clock.advance(700_000);
    expect(await outcome).toBe('open');
    expect([shown.length, events.at(-1)]).toEqual([2, 'closed']);
  });

  test('shows nothing again while only the details change, so that an owner can type a code', async () => {
    const other = new DiskError('disk-share-awaited', 'asking the other control planes first');
    const { clock, shown } = machine(awaited, other, awaited, other, refused);
    await clock.advance(2_000);
    expect(shown).toHaveLength(1);
    await clock.advance(60_000);
    expect(shown).toHaveLength(2);
  });

  test('says the code and the fix of the cause', async () => {
    const cause = new JoinClientError('joinclient-ca-replaced', 'cluster shows an old CA');
    const { clock, shown } = machine(new DiskError('disk-share-awaited', 'asking', { cause }));
    await clock.advance(10);
    expect(shown[0]).toContain(
      'disk-share-awaited (joinclient-ca-replaced): asking: cluster shows an old CA',
    );
    expect(shown[0]).toContain(`Fix: ${cause.fix}`);
  });

  test('ends when an owner has recovered the disk', async () => {
    const { outcome, serving, recover, clock } = machine(awaited);
    await clock.advance(10);
    await recover(() => Promise.resolve());
    serving.resolve();
    expect(await outcome).toBe('open');
    expect(clock.sleeping).toBe(0);
  });

  test('lets an owner finish whose recovery arrives while the disk is opened', async () => {
    const { clock, events, outcome, mapped, recover, serving } = machine(awaited, 'maps');
    await clock.advance(2_000);
    const recovering = recover(async () => void events.push(await Promise.resolve('recover')));
    await clock.advance(1_000);
    expect(events).toEqual(['ask', 'serve', 'ask']);
    mapped.resolve();
    await recovering;
    await clock.advance(1_000);
    expect(events).toEqual(['ask', 'serve', 'ask', 'recover']);
    serving.resolve();
    expect([await outcome, events.at(-1)]).toEqual(['open', 'closed']);
  });

  test('does not ask while an owner recovers the disk, and asks again if the recovery fails', async () => {
    const { outcome, recover, clock, events } = machine(awaited, 'hangs', 'opens');
    await clock.advance(2_000);
    expect(events).toEqual(['ask', 'serve', 'ask']);
    const wrong = recover(async () => {
      events.push('recover');
      await clock.sleep(5_000, stop.signal);
      throw new Error('wrong key');
    });
    const failed = wrong.catch((error: unknown) => error);
    await clock.advance(4_000);
    expect(events).toEqual(['ask', 'serve', 'ask', 'aborted', 'recover']);
    await clock.advance(2_000);
    expect(await failed).toMatchObject({ message: 'wrong key' });
    expect(await outcome).toBe('open');
    expect(events.slice(5)).toEqual(['ask', 'closed']);
  });

  test('ends with an error that stays, at the first question and later', async () => {
    const other = new StateDiskError('statedisk-changed', 'verifying');
    expect(await machine(other).outcome).toBe(other);
    const later = machine(awaited, other);
    await later.clock.advance(10_000);
    expect(await later.outcome).toBe(other);
    expect(later.events.at(-1)).toBe('closed');
  });

  test('shows another error that may pass, and asks again while an owner can recover the disk', async () => {
    const busy = new TpmError('tpm-timeout', 'unsealing');
    const { clock, events, shown, outcome } = machine(awaited, busy, busy, 'opens');
    await clock.advance(1_500);
    expect(shown.at(-1)).toContain(`last error: tpm-timeout: unsealing. Fix: ${busy.fix}`);
    await clock.advance(60_000);
    expect(await outcome).toBe('open');
    expect(events).toEqual(['ask', 'serve', 'ask', 'ask', 'ask', 'closed']);
  });

  test('asks no more if the TPM does not release the node share, and waits for an owner', async () => {
    const locked = new DiskError('disk-locked', 'unsealing');
    for (const before of [[], [awaited]]) {
      const { clock, events, shown, outcome, recover, serving } = machine(...before, locked);
      await clock.advance(3_600_000);
      expect(shown.at(-1)).toBe(`disk-locked: unsealing. Fix: ${locked.fix}`);
      expect(events.filter((each) => each === 'ask')).toHaveLength(before.length + 1);
      await recover(() => Promise.resolve());
      serving.resolve();
      expect([await outcome, events.at(-1)]).toEqual(['open', 'closed']);
    }
  });

  test('ends when the agent stops', async () => {
    const { outcome, clock } = machine(awaited);
    await clock.advance(10);
    stop.abort(new Error('stopped'));
    expect(await outcome).toMatchObject({ message: 'stopped' });
    expect(clock.sleeping).toBe(0);
  });
});
