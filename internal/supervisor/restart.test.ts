import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../cleanup/index.ts';
import { settle } from '../testing/fake-clock.ts';
import { superviseForTest } from '../testing/supervised.ts';
import { parentOf, controlledRunnable } from './fake-runnables.ts';
import { RestartRequested, type Scope } from './index.ts';

describe('RestartBackoff: pauses', () => {
  /** The pause after each of `count` failures of a runnable that fails at once. */
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

  test('vary at random between 50 % and 150 % of their mean, and stay below one minute', async () => {
    expect((await pauses(3, 0)).concat(await pauses(3, 0.999))).toEqual([250, 375, 563, 750, 1124, 1686]);
    expect(Math.max(...(await pauses(16, 0.999)))).toBe(60_000);
  });

  async function pauseAfterHealthyFor(healthyMs: number): Promise<number | undefined> {
    const child = controlledRunnable();
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

  test('start over after a run that stayed healthy', async () => {
    expect(await pauseAfterHealthyFor(10_000)).toBe(500);
  });

  test('keep growing after a run that was healthy only briefly', async () => {
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

  test('end at once on retryNow(), and start over', async () => {
    let runs = 0;
    await using tree = superviseForTest(
      parentOf({ child: () => Promise.reject(new Error(`broken ${++runs}`)) }),
    );
    for (let pause = 500; pause < 20_000; pause = Math.round(pause * 1.5)) {
      await settle();
      await tree.clock.advance(pause);
    }
    await settle();
    expect(tree.clock.sleeping).toBe(1);
    const before = runs;
    tree.retryNow();
    tree.retryNow(); // a second call must not start it again
    await settle();
    expect(runs).toBe(before + 1);
    expect((tree.at('root.child').backoffUntilMs ?? NaN) - tree.clock.nowMs()).toBe(500);
    expect(tree.clock.sleeping).toBe(1);
  });

  test('end when the parent is stopped, without a restart', async () => {
    let failParent: (error: Error) => void = () => undefined;
    let runs = 0;
    await using tree = superviseForTest(
      parentOf({
        parent: async (scope) => {
          scope.run('child', async () => {
            runs++;
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
    expect(runs).toBe(2);
    failParent(new Error('over'));
  });
});

describe('a requested restart', () => {
  test.each<{ name: string; ask: (scope: Scope) => never }>([
    { name: 'scope.restart()', ask: (scope) => scope.restart('role gone') },
    {
      name: 'an error whose cause is a RestartRequested',
      ask: () => {
        throw new Error('running', { cause: new RestartRequested('role gone') });
      },
    },
  ])('by $name logs no error and has no pause', async ({ ask }) => {
    let runs = 0;
    await using tree = superviseForTest(
      parentOf({
        child: async (scope) => {
          scope.healthy();
          if (++runs === 1) ask(scope);
          await untilAborted(scope.signal);
        },
      }),
    );
    await settle();
    expect(runs).toBe(2);
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

  test('restarts its group too', async () => {
    const b = controlledRunnable();
    let runs = 0;
    await using tree = superviseForTest(
      parentOf(
        {
          a: async (scope) => {
            if (++runs === 1) scope.restart('new configuration');
            await untilAborted(scope.signal);
          },
          b: b.run,
        },
        true,
      ),
    );
    await settle();
    expect([runs, b.runs.length, tree.at('root.b').restarts]).toEqual([2, 2, 1]);
  });

  test('is delayed when it repeats', async () => {
    let runs = 0;
    await using tree = superviseForTest(
      parentOf({
        child: async (scope) => {
          runs++;
          scope.restart('again');
        },
      }),
    );
    await settle();
    expect(runs).toBe(11);
    expect(tree.at('root.child').backoffUntilMs).toBe(tree.clock.nowMs() + 500);
  });
});
