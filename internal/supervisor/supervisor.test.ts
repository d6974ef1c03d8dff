import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import type { Clock } from '../clock/index.ts';
import { createLogger } from '../logging/index.ts';
import { createMemoryLogger, FakeClock, settle, superviseForTest, untilAborted } from '../testing/index.ts';
import { RestartRequested, supervise, type Runnable, type RunnableState, type Scope } from './index.ts';

/** A runnable that lives as a good one should. */
const good: Runnable = async ({ signal, healthy }) => {
  healthy();
  await untilAborted(signal);
};

/** A runnable whose lives a test counts and ends by hand. */
function puppet(): { readonly lives: Scope[]; readonly run: Runnable; fail(error?: unknown): void } {
  const lives: Scope[] = [];
  let fail: (error: unknown) => void = () => undefined;
  return {
    lives,
    run: (scope) => {
      lives.push(scope);
      scope.healthy();
      const { promise, reject } = Promise.withResolvers<never>();
      fail = reject;
      return Promise.race([promise, untilAborted(scope.signal)]);
    },
    fail: (error = new Error('broken')) => fail(error),
  };
}

const parentOf =
  (children: Readonly<Record<string, Runnable>>, together = false): Runnable =>
  async (scope) => {
    if (together) scope.runGroup(children);
    else for (const [name, child] of Object.entries(children)) scope.run(name, child);
    scope.healthy();
    await untilAborted(scope.signal);
  };

describe('life', () => {
  test('a tree shows every runnable, parents first, with its state', async () => {
    await using tree = superviseForTest(parentOf({ b: parentOf({ c: good }), a: good }));
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

  test('a child never runs inside its parent’s call', async () => {
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

  test('finished resolves when the signal fired and all has ended', async () => {
    const tree = superviseForTest(parentOf({ a: good, b: parentOf({ c: good }) }));
    await settle();
    tree.stop();
    await tree.finished;
    expect(tree.tree().map(({ state }) => state)).toEqual(['canceled', 'canceled', 'canceled', 'canceled']);
    expect(tree.clock.sleeping).toBe(0);
    expect(tree.records.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('finished resolves when the whole tree is done', async () => {
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

  test('children of a done parent live on and start again when they fail', async () => {
    const child = puppet();
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
    expect(child.lives).toHaveLength(2);
  });

  test('a tree whose signal fired before its start runs nothing', async () => {
    let ran = false;
    const { log } = createMemoryLogger();
    const root: Runnable = async () => {
      ran = true;
    };
    const signal = AbortSignal.abort();
    await supervise({ root, log, clock: new FakeClock(), random: () => 0.5, graceMs: 5000, signal }).finished;
    expect(ran).toBe(false);
  });

  test('a finished tree leaves no listener on the signal it was given', async () => {
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

describe('failure', () => {
  const failures: readonly { name: string; run: Runnable; error: string }[] = [
    { name: 'a rejection', run: () => Promise.reject(new Error('broken')), error: 'broken' },
    {
      name: 'a throw before the first await',
      run: () => {
        throw new TypeError('undefined is not a function');
      },
      error: 'undefined is not a function',
    },
    { name: 'a throw of no error at all', run: () => Promise.reject('just text'), error: 'just text' },
    { name: 'a return without done()', run: async () => undefined, error: 'returned without done()' },
    {
      name: 'a rejection after done()',
      run: async ({ healthy, done }) => {
        healthy();
        done();
        throw new Error('late');
      },
      error: 'late',
    },
  ];
  test.each(failures)('$name is a death, logged under its path and started again', async ({ run, error }) => {
    await using tree = superviseForTest(parentOf({ child: run }));
    await settle();
    expect(tree.at('root.child')).toMatchObject({ state: 'dead', lastError: error });
    expect(tree.at('root.child').backoffUntilMs).toBe(tree.clock.nowMs() + 500);
    expect(tree.records.filter(({ level }) => level === 'error')).toMatchObject([
      { path: 'root.child', message: 'failed', fields: { error, pauseMs: 500 } },
    ]);
    await tree.clock.advance(500);
    expect(tree.at('root.child').restarts).toBe(1);
    expect(tree.at('root').state).toBe('healthy');
  });

  test('a child that fails starts again alone', async () => {
    const [child, sibling] = [puppet(), puppet()];
    await using tree = superviseForTest(parentOf({ child: child.run, sibling: sibling.run }));
    await settle();
    child.fail();
    await tree.clock.advance(500);
    expect([child.lives.length, sibling.lives.length]).toEqual([2, 1]);
    expect(tree.at('root.child')).toMatchObject({ state: 'healthy', restarts: 1, lastError: 'broken' });
  });

  test('members of a group fall together and start together', async () => {
    const [a, b, other] = [puppet(), puppet(), puppet()];
    await using tree = superviseForTest(async (scope) => {
      scope.runGroup({ a: a.run, b: b.run });
      scope.run('other', other.run);
      scope.healthy();
      await untilAborted(scope.signal);
    });
    await settle();
    a.fail();
    await settle();
    expect([tree.at('root.a').state, tree.at('root.b').state]).toEqual(['dead', 'canceled']);
    expect(String(b.lives[0]?.signal.reason)).toContain('root.a failed: broken');
    await tree.clock.advance(499);
    expect([a.lives.length, b.lives.length]).toEqual([1, 1]);
    await tree.clock.advance(1);
    expect([a.lives.length, b.lives.length, other.lives.length]).toEqual([2, 2, 1]);
  });

  test('a member that is done starts again with its group', async () => {
    let runs = 0;
    const a = puppet();
    const once: Runnable = async ({ healthy, done }) => {
      runs++;
      healthy();
      done();
    };
    await using tree = superviseForTest(parentOf({ a: a.run, once }, true));
    await settle();
    expect(tree.at('root.once').state).toBe('done');
    a.fail();
    await tree.clock.advance(500);
    expect(runs).toBe(2);
  });

  test('a failure deep in the tree touches nothing above it', async () => {
    const leaf = puppet();
    await using tree = superviseForTest(
      parentOf({ a: parentOf({ b: parentOf({ c: parentOf({ leaf: leaf.run }) }) }) }),
    );
    await settle();
    leaf.fail();
    await tree.clock.advance(500);
    expect(tree.tree().map(({ restarts }) => restarts)).toEqual([0, 0, 0, 0, 1]);
  });

  test('a parent that fails takes everything below it down and builds it anew', async () => {
    const leaf = puppet();
    let fail: (error: Error) => void = () => undefined;
    await using tree = superviseForTest(
      parentOf({
        top: async (scope) => {
          scope.run('middle', parentOf({ leaf: leaf.run }));
          scope.healthy();
          await new Promise((_, reject) => (fail = reject));
        },
      }),
    );
    await settle();
    fail(new Error('broken'));
    await settle();
    expect(tree.tree().map(({ state }) => state)).toEqual(['healthy', 'dead', 'canceled', 'canceled']);
    await tree.clock.advance(500);
    expect(tree.tree().map(({ state }) => state)).toEqual(['healthy', 'healthy', 'healthy', 'healthy']);
    expect(leaf.lives).toHaveLength(2);
    expect(tree.at('root.top.middle.leaf').restarts).toBe(0);
    fail(new Error('over'));
  });

  test('the root itself starts again', async () => {
    const root = puppet();
    await using tree = superviseForTest(root.run);
    await settle();
    root.fail();
    await tree.clock.advance(500);
    expect(root.lives).toHaveLength(2);
  });

  test('an abort that comes wrapped is no failure', async () => {
    const tree = superviseForTest(async ({ signal, healthy }) => {
      healthy();
      await untilAborted(signal).catch((cause: unknown) => {
        throw new Error('asking for a ticket', { cause });
      });
    });
    await settle();
    tree.stop();
    await tree.finished;
    expect(tree.at('root').state).toBe('canceled');
    expect(tree.records.filter(({ message }) => message.startsWith('failed'))).toEqual([]);
  });

  test('an error while stopping is logged and does not grow the pause', async () => {
    const a = puppet();
    await using tree = superviseForTest(
      parentOf(
        {
          a: a.run,
          b: async ({ signal, healthy }) => {
            healthy();
            await untilAborted(signal).catch(() => Promise.reject(new Error('could not close')));
          },
        },
        true,
      ),
    );
    await settle();
    a.fail();
    await settle();
    expect(tree.at('root.b')).toMatchObject({ state: 'dead', lastError: 'could not close' });
    expect(tree.records.find(({ message }) => message === 'failed while stopping')?.path).toBe('root.b');
    await tree.clock.advance(500);
    expect(a.lives).toHaveLength(2);
  });

  test('a storm of failures settles and restarts each runnable once for each failure', async () => {
    const children = Array.from({ length: 300 }, puppet);
    await using tree = superviseForTest(
      parentOf(Object.fromEntries(children.map((child, index) => [`child-${index}`, child.run]))),
    );
    await settle();
    for (let round = 1; round <= 5; round++) {
      for (const child of children) child.fail();
      await tree.clock.advance(60_000);
      expect(children.every(({ lives }) => lives.length === round + 1)).toBe(true);
    }
    expect(tree.tree().every(({ state }) => state === 'healthy')).toBe(true);
  });
});

describe('pauses', () => {
  /** The pause after each of `count` deaths of a runnable that dies at once. */
  async function pauses(count: number, random = 0.5): Promise<number[]> {
    await using tree = superviseForTest(parentOf({ child: () => Promise.reject(new Error('broken')) }), {
      random: () => random,
    });
    const seen: number[] = [];
    for (let death = 0; death < count; death++) {
      await settle();
      const pauseMs = (tree.at('root.child').backoffUntilMs ?? NaN) - tree.clock.nowMs();
      seen.push(pauseMs);
      await tree.clock.advance(pauseMs);
    }
    return seen;
  }

  test('grow by half each time, up to one minute', async () => {
    const seen = await pauses(16);
    expect(seen.slice(0, 5)).toEqual([500, 750, 1125, 1688, 2531]);
    expect(seen.slice(-3)).toEqual([60_000, 60_000, 60_000]);
  });

  test('stay within half and one and a half of their mean, and below one minute', async () => {
    expect((await pauses(3, 0)).concat(await pauses(3, 0.999))).toEqual([250, 375, 563, 750, 1124, 1686]);
    expect(Math.max(...(await pauses(16, 0.999)))).toBe(60_000);
  });

  async function pauseAfterHealthyFor(healthyMs: number): Promise<number | undefined> {
    const child = puppet();
    await using tree = superviseForTest(parentOf({ child: child.run }));
    await settle();
    for (let death = 0; death < 5; death++) {
      child.fail();
      await tree.clock.advance(3000);
    }
    await tree.clock.advance(healthyMs);
    child.fail();
    await settle();
    return (tree.at('root.child').backoffUntilMs ?? NaN) - tree.clock.nowMs();
  }

  test('start anew after a life that stayed healthy', async () => {
    expect(await pauseAfterHealthyFor(10_000)).toBe(500);
  });

  test('go on growing when it was healthy only for a moment', async () => {
    expect(await pauseAfterHealthyFor(1000)).toBeGreaterThan(2531);
  });

  test('end at once when the tree stops', async () => {
    const tree = superviseForTest(parentOf({ child: () => Promise.reject(new Error('broken')) }));
    await settle();
    expect(tree.clock.sleeping).toBe(1);
    tree.stop();
    await tree.finished;
    expect(tree.clock.sleeping).toBe(0);
    expect(tree.at('root.child')).toMatchObject({ state: 'dead', restarts: 0 });
  });

  test('end when the parent falls, and start nothing afterwards', async () => {
    let failParent: (error: Error) => void = () => undefined;
    let lives = 0;
    await using tree = superviseForTest(
      parentOf({
        parent: async (scope) => {
          scope.run('child', async () => {
            lives++;
            throw new Error('broken');
          });
          scope.healthy();
          await new Promise((_, reject) => (failParent = reject));
        },
      }),
      { random: () => 0.9 },
    );
    await settle();
    failParent(new Error('broken too'));
    await settle();
    expect(tree.clock.sleeping).toBe(1);
    await tree.clock.advance(700);
    expect(lives).toBe(2);
    failParent(new Error('over'));
  });
});

describe('a wanted restart', () => {
  test.each<{ name: string; ask: (scope: Scope) => never }>([
    { name: 'scope.restart()', ask: (scope) => scope.restart('role gone') },
    {
      name: 'a RestartRequested with a cause around it',
      ask: () => {
        throw new Error('running', { cause: new RestartRequested('role gone') });
      },
    },
  ])('by $name has no error line and no pause', async ({ ask }) => {
    let lives = 0;
    await using tree = superviseForTest(
      parentOf({
        child: async (scope) => {
          scope.healthy();
          if (++lives === 1) ask(scope);
          await untilAborted(scope.signal);
        },
      }),
    );
    await settle();
    expect(lives).toBe(2);
    expect(tree.at('root.child')).toEqual({
      path: 'root.child',
      state: 'healthy',
      sinceMs: tree.clock.nowMs(),
      restarts: 1,
    });
    expect(tree.records).toMatchObject([
      { level: 'info', path: 'root.child', message: 'restarting', fields: { reason: 'role gone' } },
    ]);
  });

  test('takes its group along', async () => {
    const b = puppet();
    let lives = 0;
    await using tree = superviseForTest(
      parentOf(
        {
          a: async (scope) => {
            if (++lives === 1) scope.restart('new configuration');
            await untilAborted(scope.signal);
          },
          b: b.run,
        },
        true,
      ),
    );
    await settle();
    expect([lives, b.lives.length, tree.at('root.b').restarts]).toEqual([2, 2, 1]);
  });

  test('that never stops asking is paced', async () => {
    let lives = 0;
    await using tree = superviseForTest(
      parentOf({
        child: async (scope) => {
          lives++;
          scope.restart('again');
        },
      }),
    );
    await settle();
    expect(lives).toBe(11);
    expect(tree.at('root.child').backoffUntilMs).toBe(tree.clock.nowMs() + 500);
  });
});

describe('a runnable that ignores its signal', () => {
  /** Ends when the test says so, whatever its signal says. */
  function deaf(): { readonly run: Runnable; lives: number; end(): void } {
    const ends: (() => void)[] = [];
    const it = {
      lives: 0,
      run: async ({ healthy }: Scope) => {
        it.lives++;
        healthy();
        await new Promise<void>((resolve) => ends.push(resolve));
      },
      end: () => ends.forEach((end) => end()),
    };
    return it;
  }

  test('is named, and finished rejects with its path', async () => {
    const child = deaf();
    const tree = superviseForTest(parentOf({ child: child.run, sibling: good }), { graceMs: 2000 });
    await settle();
    tree.stop();
    await tree.clock.advance(1999);
    expect(tree.records).toEqual([]);
    await tree.clock.advance(1);
    await expect(tree.finished).rejects.toMatchObject({
      code: 'supervisor-straggler',
      details: { paths: ['root.child'] },
    });
    expect(tree.records).toMatchObject([
      { level: 'error', path: 'root.child', message: 'still running after it was asked to stop' },
    ]);
    child.end();
  });

  test('that ends within the grace period is fine', async () => {
    const child = deaf();
    const tree = superviseForTest(parentOf({ child: child.run }), { graceMs: 2000 });
    await settle();
    tree.stop();
    await tree.clock.advance(1999);
    child.end();
    await tree.finished;
    expect(tree.clock.sleeping).toBe(0);
    expect(tree.records).toEqual([]);
  });

  test('holds up the restart of its group, so that nothing runs twice, and ends the tree', async () => {
    const [a, b, other] = [puppet(), deaf(), puppet()];
    const tree = superviseForTest(
      async (scope) => {
        scope.runGroup({ a: a.run, b: b.run });
        scope.run('other', other.run);
        scope.healthy();
        await untilAborted(scope.signal);
      },
      { graceMs: 2000 },
    );
    await settle();
    a.fail();
    await tree.clock.advance(1999);
    expect([a.lives.length, b.lives, other.lives[0]?.signal.aborted]).toEqual([1, 1, false]);
    await tree.clock.advance(1);
    await expect(tree.finished).rejects.toMatchObject({ details: { paths: ['root.b'] } });
    expect(tree.at('root.other').state).toBe('canceled');
    expect([a.lives.length, b.lives]).toEqual([1, 1]);
    b.end();
  });

  test('deep below a fallen parent holds up the whole subtree until it has ended', async () => {
    const leaf = deaf();
    const top = puppet();
    await using tree = superviseForTest(
      parentOf({
        top: (scope) => {
          scope.run('middle', parentOf({ leaf: leaf.run }));
          return top.run(scope);
        },
      }),
    );
    await settle();
    top.fail();
    await tree.clock.advance(1000);
    expect(top.lives).toHaveLength(1);
    leaf.end();
    await tree.clock.advance(500);
    expect(top.lives).toHaveLength(2);
    tree.stop();
    leaf.end();
  });
});

describe('misuse', () => {
  const misuses: readonly { name: string; run: (scope: Scope) => void; error: string }[] = [
    {
      name: 'healthy() twice',
      run: (scope) => (scope.healthy(), scope.healthy()),
      error: 'healthy() called twice: root.child',
    },
    {
      name: 'done() before healthy()',
      run: (scope) => scope.done(),
      error: 'done() called before healthy()',
    },
    {
      name: 'done() twice',
      run: (scope) => (scope.healthy(), scope.done(), scope.done()),
      error: 'done() called twice: root.child',
    },
    {
      name: 'run() after healthy()',
      run: (scope) => (scope.healthy(), scope.run('late', good)),
      error: 'run() called after healthy(): root.child',
    },
    { name: 'an empty group', run: (scope) => scope.runGroup({}), error: 'without a runnable: root.child' },
    {
      name: 'a name taken',
      run: (scope) => (scope.run('same', good), scope.runGroup({ other: good, same: good })),
      error: 'adding child "same" to root.child: it has a child of this name already',
    },
    {
      name: 'a reserved name',
      run: (scope) => scope.run('root', good),
      error: '"root" to root.child: this name is reserved',
    },
    ...['', 'Upper', 'a.b', 'a b', '-a', 'a-', 'a--b', '1a', 'a\n', 'a'.repeat(64)].map((name) => ({
      name: `the name ${JSON.stringify(name)}`,
      run: (scope: Scope) => scope.run(name, good),
      error: 'a name is lower-case words joined by single dashes',
    })),
  ];
  test.each(misuses)('$name fails loudly and names the path', async ({ run, error }) => {
    await using tree = superviseForTest(
      parentOf({
        child: async (scope) => {
          run(scope);
          await untilAborted(scope.signal);
        },
      }),
    );
    await settle();
    expect(tree.at('root.child').state).toBe('dead');
    expect(tree.at('root.child').lastError).toContain(error);
  });

  test.each<{ name: string; call: (scope: Scope) => void }>([
    { name: 'healthy()', call: (scope) => scope.healthy() },
    { name: 'done()', call: (scope) => scope.done() },
    { name: 'waiting()', call: (scope) => scope.waiting('x') },
    { name: 'run()', call: (scope) => scope.run('late', good) },
    { name: 'restart()', call: (scope) => scope.restart('x') },
  ])('$name after the end of its life fails loudly', async ({ name, call }) => {
    const child = puppet();
    await using tree = superviseForTest(parentOf({ child: child.run }));
    await settle();
    child.fail();
    await tree.clock.advance(500);
    const [first] = child.lives;
    expect(() => call(first as Scope)).toThrow(`${name} called after the end of this life: root.child`);
  });

  test('a child added while the parent is being stopped never runs', async () => {
    const states: RunnableState[] = [];
    const tree = superviseForTest(async (scope) => {
      await untilAborted(scope.signal).catch(() => scope.run('late', async () => void states.push('new')));
    });
    await settle();
    tree.stop();
    await tree.finished;
    expect(states).toEqual([]);
    expect(tree.at('root.late').state).toBe('canceled');
  });
});

describe('tree()', () => {
  test('shows what is waited for until it is healthy', async () => {
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

  test('keeps the last error after the restart, and the time of the last move', async () => {
    const child = puppet();
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
    });
  });
});

test('200,000 lives leave no listener behind', async () => {
  const graceMs = 5000;
  const instantClock: Clock = {
    nowMs: () => 0,
    monotonicMs: () => 0,
    sleep: (ms, signal) => (ms === graceMs ? untilAborted(signal) : Promise.resolve()),
  };
  const broken = new RangeError('broken'); // made once: its stack is the slowest part of a round
  let lives = 0;
  let parentSignal = AbortSignal.abort();
  const enough = Promise.withResolvers<void>();
  const controller = new AbortController();
  const { finished, tree } = supervise({
    root: (scope) => {
      parentSignal = scope.signal;
      return parentOf({
        child: async ({ healthy, signal }) => {
          healthy();
          if (++lives < 200_000) throw broken;
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
  expect(getEventListeners(parentSignal, 'abort')).toHaveLength(1); // its own untilAborted()
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
  controller.abort(new Error('enough'));
  await finished;
});
