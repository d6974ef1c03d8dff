import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../cleanup/index.ts';
import { settle } from '../testing/fake-clock.ts';
import { superviseForTest } from '../testing/supervised.ts';
import { wellBehaved, parentOf, controlledRunnable } from './fake-runnables.ts';
import type { Runnable, Scope } from './index.ts';

describe('a runnable that ignores its signal', () => {
  /** A runnable that ends only when the test calls end(), whatever its signal does. */
  function deaf(): { readonly run: Runnable; runs: number; end(): void } {
    const ends: (() => void)[] = [];
    const it = {
      runs: 0,
      run: async ({ healthy }: Scope) => {
        it.runs++;
        healthy();
        await new Promise<void>((resolve) => ends.push(resolve));
      },
      end: () => ends.forEach((end) => end()),
    };
    return it;
  }

  test('makes `finished` reject with the path of the runnable', async () => {
    const child = deaf();
    const tree = superviseForTest(parentOf({ child: child.run, sibling: wellBehaved }), { graceMs: 2000 });
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

  test('is no error when the runnable ends within the grace period', async () => {
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

  test('a runnable that does not stop delays the restart of its group, so that nothing runs twice, and stops the tree', async () => {
    const [a, b, other] = [controlledRunnable(), deaf(), controlledRunnable()];
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
    expect([a.runs.length, b.runs, other.runs[0]?.signal.aborted]).toEqual([1, 1, false]);
    await tree.clock.advance(1);
    await expect(tree.finished).rejects.toMatchObject({ details: { paths: ['root.b'] } });
    expect(tree.at('root.other').state).toBe('canceled');
    expect([a.runs.length, b.runs]).toEqual([1, 1]);
    b.end();
  });

  test('delays the restart of the whole subtree below a failed parent', async () => {
    const leaf = deaf();
    const top = controlledRunnable();
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
    expect(top.runs).toHaveLength(1);
    leaf.end();
    await tree.clock.advance(500);
    expect(top.runs).toHaveLength(2);
    tree.stop();
    leaf.end();
  });
});
