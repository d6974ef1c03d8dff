import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../cleanup/index.ts';
import { settle } from '../testing/fake-clock.ts';
import { superviseForTest } from '../testing/supervised.ts';
import { parentOf, controlledRunnable } from './fake-runnables.ts';
import type { Runnable } from './index.ts';

describe('a failure', () => {
  const failures: readonly { name: string; run: Runnable; error: string }[] = [
    { name: 'a rejection', run: () => Promise.reject(new Error('broken')), error: 'broken' },
    {
      name: 'a throw before the first await',
      run: () => {
        throw new TypeError('undefined is not a function');
      },
      error: 'undefined is not a function',
    },
    {
      name: 'a thrown value that is not an Error',
      run: () => Promise.reject('just text'),
      error: 'just text',
    },
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
  test.each(failures)(
    '$name counts as a failure: it is logged with the path, and the runnable is restarted',
    async ({ run, error }) => {
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
    },
  );

  test('restarts only the child that failed', async () => {
    const [child, sibling] = [controlledRunnable(), controlledRunnable()];
    await using tree = superviseForTest(parentOf({ child: child.run, sibling: sibling.run }));
    await settle();
    child.fail();
    await tree.clock.advance(500);
    expect([child.runs.length, sibling.runs.length]).toEqual([2, 1]);
    expect(tree.at('root.child')).toMatchObject({ state: 'healthy', restarts: 1, lastError: 'broken' });
  });

  test('stops and restarts the members of a group together', async () => {
    const [a, b, other] = [controlledRunnable(), controlledRunnable(), controlledRunnable()];
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
    expect(String(b.runs[0]?.signal.reason)).toContain('root.a failed: broken');
    await tree.clock.advance(499);
    expect([a.runs.length, b.runs.length]).toEqual([1, 1]);
    await tree.clock.advance(1);
    expect([a.runs.length, b.runs.length, other.runs.length]).toEqual([2, 2, 1]);
  });

  test('restarts a member that is done together with its group', async () => {
    let runs = 0;
    const a = controlledRunnable();
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

  test('does not affect the parents of a failed runnable', async () => {
    const leaf = controlledRunnable();
    await using tree = superviseForTest(
      parentOf({ a: parentOf({ b: parentOf({ c: parentOf({ leaf: leaf.run }) }) }) }),
    );
    await settle();
    leaf.fail();
    await tree.clock.advance(500);
    expect(tree.tree().map(({ restarts }) => restarts)).toEqual([0, 0, 0, 0, 1]);
  });

  test('stops everything below a failed parent and starts it again', async () => {
    const leaf = controlledRunnable();
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
    expect(leaf.runs).toHaveLength(2);
    expect(tree.at('root.top.middle.leaf').restarts).toBe(0);
    fail(new Error('over'));
  });

  test('restarts the root', async () => {
    const root = controlledRunnable();
    await using tree = superviseForTest(root.run);
    await settle();
    root.fail();
    await tree.clock.advance(500);
    expect(root.runs).toHaveLength(2);
  });

  test('does not treat a wrapped abort as a failure', async () => {
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

  test('only logs the error of a runnable that fails while it is being stopped; the first failure determines the pause', async () => {
    const a = controlledRunnable();
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
    expect(a.runs).toHaveLength(2);
  });

  test('restarts each runnable once per failure when many fail at once', async () => {
    const children = Array.from({ length: 300 }, controlledRunnable);
    await using tree = superviseForTest(
      parentOf(Object.fromEntries(children.map((child, index) => [`child-${index}`, child.run]))),
    );
    await settle();
    for (let round = 1; round <= 5; round++) {
      for (const child of children) child.fail();
      await tree.clock.advance(60_000);
      expect(children.every(({ runs }) => runs.length === round + 1)).toBe(true);
    }
    expect(tree.tree().every(({ state }) => state === 'healthy')).toBe(true);
  });
});
