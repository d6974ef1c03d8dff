import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../cleanup/index.ts';
import { settle } from '../testing/fake-clock.ts';
import { superviseForTest } from '../testing/supervised.ts';
import { wellBehaved, parentOf, controlledRunnable } from './fake-runnables.ts';
import type { RunnableState, Scope } from './index.ts';

describe('Scope misuse', () => {
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
      run: (scope) => (scope.healthy(), scope.run('late', wellBehaved)),
      error: 'run() called after healthy(): root.child',
    },
    { name: 'an empty group', run: (scope) => scope.runGroup({}), error: 'without a runnable: root.child' },
    {
      name: 'a name that a sibling has',
      run: (scope) => (
        scope.run('same', wellBehaved),
        scope.runGroup({ other: wellBehaved, same: wellBehaved })
      ),
      error: 'adding child "same" to root.child: it already has a child of this name',
    },
    {
      name: 'a reserved name',
      run: (scope) => scope.run('root', wellBehaved),
      error: '"root" to root.child: this name is reserved',
    },
    ...['', 'Upper', 'a.b', 'a b', '-a', 'a-', 'a--b', '1a', 'a\n', 'a'.repeat(64)].map((name) => ({
      name: `the name ${JSON.stringify(name)}`,
      run: (scope: Scope) => scope.run(name, wellBehaved),
      error: 'names are lower-case words joined by single dashes',
    })),
  ];
  test.each(misuses)('$name throws an error that names the path', async ({ run, error }) => {
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
    { name: 'run()', call: (scope) => scope.run('late', wellBehaved) },
    { name: 'restart()', call: (scope) => scope.restart('x') },
  ])('$name throws after the end of its run', async ({ name, call }) => {
    const child = controlledRunnable();
    await using tree = superviseForTest(parentOf({ child: child.run }));
    await settle();
    child.fail();
    await tree.clock.advance(500);
    const [first] = child.runs;
    expect(() => call(first as Scope)).toThrow(`${name} called after the end of this run: root.child`);
  });

  test('never runs a child that is added while the parent is being stopped', async () => {
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
