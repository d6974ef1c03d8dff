import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../cleanup/index.ts';
import type { Clock } from '../clock/index.ts';
import { createLogger } from '../logging/index.ts';
import { FakeClock, settle } from '../testing/fake-clock.ts';
import { createMemoryLogger } from '../testing/memory-logger.ts';
import { superviseForTest } from '../testing/supervised.ts';
import { wellBehaved, parentOf, controlledRunnable } from './fake-runnables.ts';
import { supervise, type Runnable } from './index.ts';

describe('supervise()', () => {
  test('shows every runnable with its state, parents first', async () => {
    await using tree = superviseForTest(parentOf({ b: parentOf({ c: wellBehaved }), a: wellBehaved }));
    expect(tree.tree().map(({ path, state }) => [path, state])).toEqual([['root', 'new']]);
    await settle();
    expect(tree.tree()).toEqual(
      ['root', 'root.b', 'root.b.c', 'root.a'].map((path) => ({
        path,
        state: 'healthy',
        sinceMs: tree.clock.nowMs(),
        restarts: 0,
      })),
    );
  });

  test('never runs a child inside the call of its parent', async () => {
    const order: string[] = [];
    await using tree = superviseForTest(async (scope) => {
      scope.run('child', async ({ signal }) => {
        order.push('child');
        await untilAborted(signal);
      });
      order.push('parent');
      scope.healthy();
      await untilAborted(scope.signal);
    });
    await settle();
    expect(tree.at('root.child').state).toBe('new');
    expect(order).toEqual(['parent', 'child']);
  });

  test('resolves the promise `finished` once the signal has fired and all runnables have ended', async () => {
    const tree = superviseForTest(parentOf({ a: wellBehaved, b: parentOf({ c: wellBehaved }) }));
    await settle();
    tree.stop();
    await tree.finished;
    expect(tree.tree().map(({ state }) => state)).toEqual(['canceled', 'canceled', 'canceled', 'canceled']);
    expect(tree.clock.sleeping).toBe(0);
    expect(tree.records.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('resolves the promise `finished` once the whole tree is done', async () => {
    const once: Runnable = async ({ healthy, done }) => {
      healthy();
      done();
    };
    const tree = superviseForTest(async (scope) => {
      scope.run('child', once);
      await once(scope);
    });
    await tree.finished;
    expect(tree.tree().map(({ state }) => state)).toEqual(['done', 'done']);
  });

  test('keeps and restarts the children of a parent that is done', async () => {
    const child = controlledRunnable();
    await using tree = superviseForTest(async (scope) => {
      scope.run('child', child.run);
      scope.healthy();
      scope.done();
    });
    await settle();
    child.fail();
    await settle();
    expect([tree.at('root').state, tree.at('root.child').state]).toEqual(['done', 'dead']);
    await tree.clock.advance(500);
    expect(child.runs).toHaveLength(2);
  });

  test('runs nothing when the signal fired before the start', async () => {
    let ran = false;
    const { log } = createMemoryLogger();
    const root: Runnable = async () => {
      ran = true;
    };
    const signal = AbortSignal.abort();
    await supervise({ root, log, clock: new FakeClock(), random: () => 0.5, graceMs: 5000, signal }).finished;
    expect(ran).toBe(false);
  });

  test('leaves no listener on its signal', async () => {
    const controller = new AbortController();
    const { log } = createMemoryLogger();
    const { finished } = supervise({
      root: async ({ healthy, done }) => (healthy(), done()),
      log,
      clock: new FakeClock(),
      random: () => 0.5,
      graceMs: 5000,
      signal: controller.signal,
    });
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    await finished;
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });
});

describe('tree()', () => {
  test('shows what a runnable waits for, until it is healthy', async () => {
    let go: () => void = () => undefined;
    await using tree = superviseForTest(
      parentOf({
        child: async (scope) => {
          scope.waiting('consensus');
          await new Promise<void>((resolve) => (go = resolve));
          scope.healthy();
          await untilAborted(scope.signal);
        },
      }),
    );
    await settle();
    expect(tree.at('root.child')).toMatchObject({ state: 'new', note: 'consensus' });
    await tree.clock.advance(3000);
    go();
    await settle();
    expect(tree.at('root.child')).toEqual({
      path: 'root.child',
      state: 'healthy',
      sinceMs: tree.clock.nowMs(),
      restarts: 0,
    });
  });

  test('keeps the last error after the restart, and the time of the last transition', async () => {
    const child = controlledRunnable();
    await using tree = superviseForTest(parentOf({ child: child.run }));
    await settle();
    child.fail(new Error('dialing', { cause: new Error('refused') }));
    await tree.clock.advance(2000);
    expect(tree.at('root.child')).toEqual({
      path: 'root.child',
      state: 'healthy',
      sinceMs: tree.clock.nowMs() - 1500,
      restarts: 1,
      lastError: 'dialing: refused',
      failedMs: tree.clock.nowMs() - 2000,
    });
  });
});

test('supervise() leaves no listener behind after 200,000 runs', async () => {
  const graceMs = 5000;
  const instantClock: Clock = {
    nowMs: () => 0,
    monotonicMs: () => 0,
    sleep: (ms, signal) => (ms === graceMs ? untilAborted(signal) : Promise.resolve()),
  };
  // One error for all runs, because creating the stack of an error takes most of the time of a run.
  const broken = new RangeError('broken');
  let runs = 0;
  let parentSignal = AbortSignal.abort();
  const enough = Promise.withResolvers<void>();
  const controller = new AbortController();
  const { finished, tree } = supervise({
    root: (scope) => {
      parentSignal = scope.signal;
      return parentOf({
        child: async ({ healthy, signal }) => {
          healthy();
          // Fails fast on a leak: with many listeners each further run takes longer.
          if (runs === 1000 && getEventListeners(parentSignal, 'abort').length > 10) enough.reject(broken);
          if (++runs < 200_000) throw broken;
          enough.resolve();
          await untilAborted(signal);
        },
      })(scope);
    },
    log: createLogger({ path: '', nowMs: () => 0, sink: () => undefined }),
    clock: instantClock,
    random: () => 0.5,
    graceMs,
    signal: controller.signal,
  });
  await enough.promise;
  expect(tree()).toMatchObject([{ restarts: 0 }, { restarts: 199_999 }]);
  // The listener of this test's own untilAborted().
  expect(getEventListeners(parentSignal, 'abort')).toHaveLength(1);
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
  controller.abort(new Error('enough'));
  await finished;
}, 60_000);
