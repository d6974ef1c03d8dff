import { describe, expect, test } from '@jest/globals';
import { settle } from '../testing/fake-clock.ts';
import { superviseForTest } from '../testing/supervised.ts';
import { untilAborted } from '../testing/until-aborted.ts';
import { parentOf, controlledRunnable } from './fake-runnables.ts';
import { RestartRequested, type Scope } from './index.ts';

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

  test('end at once when somebody has come, and begin small again', async () => {
    let lives = 0;
    await using tree = superviseForTest(
      parentOf({ child: () => Promise.reject(new Error(`broken ${++lives}`)) }),
    );
    for (let pause = 500; pause < 20_000; pause = Math.round(pause * 1.5)) {
      await settle();
      await tree.clock.advance(pause);
    }
    await settle();
    expect(tree.clock.sleeping).toBe(1);
    const before = lives;
    tree.retryNow();
    tree.retryNow(); // a second one finds it at work already
    await settle();
    expect(lives).toBe(before + 1);
    expect((tree.at('root.child').backoffUntilMs ?? NaN) - tree.clock.nowMs()).toBe(500);
    expect(tree.clock.sleeping).toBe(1);
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
    const b = controlledRunnable();
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
