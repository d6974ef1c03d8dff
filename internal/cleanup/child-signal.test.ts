import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/fake-clock.ts';
import { childSignal, TimeoutError, untilAborted, withChildSignal, withTimeout } from './index.ts';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe('childSignal()', () => {
  test('the child signal fires with its parent and with the same reason', () => {
    const parent = new AbortController();
    using child = childSignal(parent.signal);
    const reason = new Error('enough');
    parent.abort(reason);
    expect(child.signal.reason).toBe(reason);
  });

  test('the child signal has fired if its parent fired before', () => {
    const reason = new Error('enough');
    using child = childSignal(AbortSignal.abort(reason));
    expect(child.signal.reason).toBe(reason);
  });

  test('the child signal can fire without its parent', () => {
    const parent = new AbortController();
    using child = childSignal(parent.signal);
    child.abort(new Error('just me'));
    expect([child.signal.aborted, parent.signal.aborted]).toEqual([true, false]);
  });

  test('the child signal keeps the first reason', () => {
    const parent = new AbortController();
    using child = childSignal(parent.signal);
    child.abort('first');
    parent.abort('second');
    expect(child.signal.reason).toBe('first');
  });

  test('the child signal detaches from its parent when it is disposed, also if it is disposed again', () => {
    const parent = new AbortController();
    const child = childSignal(parent.signal);
    expect(listeners(parent.signal)).toBe(1);
    child[Symbol.dispose]();
    child[Symbol.dispose]();
    expect(listeners(parent.signal)).toBe(0);
    parent.abort();
    expect(child.signal.aborted).toBe(false);
  });

  test('200,000 child signals leave no listener on their parent', () => {
    const parent = new AbortController();
    for (let round = 0; round < 200_000; round++) {
      using child = childSignal(parent.signal);
      if (round % 2 === 0) child.abort(round);
      // Fails early on a leak: with many listeners, each further round takes longer.
      if (round === 1000) expect(listeners(parent.signal)).toBeLessThan(2);
    }
    expect(listeners(parent.signal)).toBe(0);
  });
});

describe('withChildSignal()', () => {
  test('removes what the work leaves on its signal, also when the work fails', async () => {
    const parent = new AbortController();
    const keep = (child: AbortSignal): void => child.addEventListener('abort', () => undefined);
    expect(await withChildSignal(parent.signal, async (child) => keep(child))).toBeUndefined();
    const failed = withChildSignal(parent.signal, async (child) => {
      keep(child);
      throw new Error('refused');
    });
    await expect(failed).rejects.toThrow('refused');
    expect(listeners(parent.signal)).toBe(0);
  });

  test('the work ends with the reason of the parent', async () => {
    const parent = new AbortController();
    const work = withChildSignal(parent.signal, untilAborted);
    const reason = new Error('enough');
    parent.abort(reason);
    await expect(work).rejects.toBe(reason);
  });
});

describe('untilAborted()', () => {
  test('rejects with the reason when the signal fires, and keeps no listener', async () => {
    const stop = new AbortController();
    const reason = new Error('enough');
    const waiting = untilAborted(stop.signal);
    stop.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect(listeners(stop.signal)).toBe(0);
  });

  test('rejects at once when the signal has fired before', async () => {
    const reason = new Error('enough');
    await expect(untilAborted(AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});

describe('withTimeout()', () => {
  const bench = () => {
    const clock = new FakeClock();
    const parent = new AbortController();
    const options = { what: 'dialing 192.0.2.8', ms: 1000, clock, signal: parent.signal };
    const nothingLeft = (): void => expect([listeners(parent.signal), clock.sleeping]).toEqual([0, 0]);
    return { clock, parent, options, nothingLeft };
  };

  test('returns the result of its work', async () => {
    const { options, nothingLeft } = bench();
    expect(await withTimeout(options, async () => 42)).toBe(42);
    nothingLeft();
  });

  test('rejects with the error of its work', async () => {
    const { options, nothingLeft } = bench();
    await expect(withTimeout(options, () => Promise.reject(new Error('refused')))).rejects.toThrow('refused');
    nothingLeft();
  });

  test('rejects with an error that its work throws synchronously', async () => {
    const { options, nothingLeft } = bench();
    const work = (): Promise<never> => {
      throw new TypeError('no such method');
    };
    await expect(withTimeout(options, work)).rejects.toThrow(TypeError);
    nothingLeft();
  });

  test('aborts its work with a TimeoutError that names the work', async () => {
    const { clock, options, nothingLeft } = bench();
    const waiting = withTimeout(options, untilAborted);
    const outcome = expect(waiting).rejects.toEqual(
      new TimeoutError('dialing 192.0.2.8: timed out after 1.0s'),
    );
    await clock.advance(1000);
    await outcome;
    nothingLeft();
  });

  test('does not fire before its timeout', async () => {
    const { clock, options } = bench();
    let ended = false;
    const waiting = withTimeout(options, untilAborted).finally(() => (ended = true));
    await clock.advance(999);
    expect(ended).toBe(false);
    const outcome = expect(waiting).rejects.toThrow(TimeoutError);
    await clock.advance(1);
    await outcome;
  });

  test('rejects in time when its work ignores the signal, and ignores a late failure of the work', async () => {
    const { clock, options, nothingLeft } = bench();
    const deaf = Promise.withResolvers<never>();
    const outcome = expect(withTimeout(options, () => deaf.promise)).rejects.toThrow(TimeoutError);
    await clock.advance(1000);
    await outcome;
    deaf.reject(new Error('late'));
    await settle();
    nothingLeft();
  });

  test('rejects with the reason of its signal', async () => {
    const { parent, options, nothingLeft } = bench();
    const reason = new Error('the program stops');
    const outcome = expect(withTimeout(options, () => new Promise(() => undefined))).rejects.toBe(reason);
    parent.abort(reason);
    await outcome;
    nothingLeft();
  });

  test('does not start its work when the signal has fired', async () => {
    const { clock } = bench();
    const reason = new Error('the program stops');
    let started = false;
    const work = async (): Promise<void> => {
      started = true;
    };
    await expect(
      withTimeout({ what: 'x', ms: 1000, clock, signal: AbortSignal.abort(reason) }, work),
    ).rejects.toBe(reason);
    expect(started).toBe(false);
  });

  test('leaves no listener behind after 20,000 rounds', async () => {
    const { options, nothingLeft } = bench();
    for (let round = 0; round < 20_000; round++) await withTimeout(options, async () => round);
    nothingLeft();
  });
});
