import { describe, expect, test } from '@jest/globals';
import { untilAborted } from '../cleanup/index.ts';
import { EventValue } from '../event/index.ts';
import { settle } from '../testing/fake-clock.ts';
import { superviseForTest, type SupervisedTree } from '../testing/supervised.ts';
import { launcher, type Plan, type Scope } from './index.ts';

interface Role {
  readonly wanted: boolean;
  readonly peers?: readonly string[];
}

/**
 * Only `wanted` starts or stops the workload. Changed peers give a new configuration, which a running
 * workload ignores.
 */
function plan(role: Role, running: boolean): Plan<string> {
  if (!role.wanted)
    return running ? { kind: 'stop', why: 'role gone' } : { kind: 'wait', why: 'role absent' };
  return { kind: 'start', config: (role.peers ?? []).join() };
}

interface Bench {
  readonly tree: SupervisedTree;
  readonly role: EventValue<Role>;
  readonly starts: readonly string[];
  readonly scopes: readonly Scope[];
  /** Completes the pending start. */
  finishStart: (error?: Error) => void;
}

/** A launcher below a root. With `slow`, the test decides when each start ends. */
function bench(
  options: { readonly slow?: boolean; readonly plan?: typeof plan } = {},
): Bench & AsyncDisposable {
  const role = new EventValue<Role>();
  const starts: string[] = [];
  const scopes: Scope[] = [];
  const worker = launcher({
    input: role,
    plan: options.plan ?? plan,
    start: async (scope, config) => {
      starts.push(config);
      scopes.push(scope);
      scope.run('process', async ({ healthy, signal }) => {
        healthy();
        await untilAborted(signal);
      });
      if (options.slow !== true) return;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      it.finishStart = (error) => (error === undefined ? resolve() : reject(error));
      await Promise.race([promise, untilAborted(scope.signal)]);
    },
  });
  const tree = superviseForTest(async (scope) => {
    scope.run('worker', worker);
    scope.healthy();
    await untilAborted(scope.signal);
  });
  const it: Bench & AsyncDisposable = {
    tree,
    role,
    starts,
    scopes,
    finishStart: (): void => undefined,
    [Symbol.asyncDispose]: () => tree[Symbol.asyncDispose](),
  };
  return it;
}

describe('launcher()', () => {
  test('reports that it waits for its first input, then what the plan waits for', async () => {
    await using it = bench();
    await settle();
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'new', note: 'first input' });
    it.role.set({ wanted: false });
    await settle();
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'new', note: 'role absent' });
    expect(it.starts).toEqual([]);
  });

  test('starts with the planned configuration and is healthy afterwards', async () => {
    await using it = bench({ slow: true });
    it.role.set({ wanted: true, peers: ['a'] });
    await settle();
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'new', note: 'starting' });
    it.finishStart();
    await settle();
    expect(it.tree.at('root.worker').state).toBe('healthy');
    expect(it.starts).toEqual(['a']);
  });

  test('keeps the workload when the planned configuration changes', async () => {
    await using it = bench();
    for (const peers of [['a'], ['a', 'b'], []]) {
      it.role.set({ wanted: true, peers });
      await settle();
    }
    expect(it.starts).toEqual(['a']);
    expect(it.tree.tree().map(({ restarts }) => restarts)).toEqual([0, 0, 0]);
    expect(it.scopes[0]?.signal.aborted).toBe(false);
  });

  test('stops an unwanted workload without an error, and starts it once when it is wanted again', async () => {
    await using it = bench();
    it.role.set({ wanted: true, peers: ['a'] });
    await settle();
    it.role.set({ wanted: false });
    await settle();
    expect(it.tree.tree().map(({ path }) => path)).toEqual(['root', 'root.worker']);
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'new', note: 'role absent', restarts: 1 });
    it.role.set({ wanted: true, peers: ['b'] });
    await settle();
    expect(it.starts).toEqual(['a', 'b']);
    expect(it.tree.at('root.worker.process').state).toBe('healthy');
    expect(it.tree.records.map(({ level }) => level)).toEqual(['info']);
  });

  test('aborts a start when the workload is no longer wanted', async () => {
    await using it = bench({ slow: true });
    it.role.set({ wanted: true });
    await settle();
    it.role.set({ wanted: false });
    await settle();
    expect(it.scopes[0]?.signal.aborted).toBe(true);
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'new', note: 'role absent', restarts: 1 });
    expect(it.tree.at('root.worker')).not.toHaveProperty('lastError');
  });

  test('does not miss a plan that changes in the same iteration of the event loop in which the start ends', async () => {
    await using it = bench({ slow: true });
    it.role.set({ wanted: true });
    await settle();
    it.finishStart();
    it.role.set({ wanted: false });
    await settle();
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'new', note: 'role absent' });
  });

  test('does not begin a start before the aborted start has ended', async () => {
    const role = new EventValue<Role>();
    let running = 0;
    let most = 0;
    let end: () => void = () => undefined;
    await using tree = superviseForTest(
      launcher({
        input: role,
        plan,
        start: async () => {
          most = Math.max(most, ++running);
          await new Promise<void>((resolve) => (end = resolve));
          running--;
        },
      }),
    );
    for (const wanted of [true, false, true]) {
      role.set({ wanted });
      await settle();
    }
    expect([running, most, tree.at('root').restarts]).toEqual([1, 1, 0]);
    end();
    await settle();
    expect([running, most, tree.at('root').restarts]).toEqual([1, 1, 1]);
    end();
  });

  test('tries a failed start again after a pause, and does not watch its input during the pause', async () => {
    await using it = bench({ slow: true });
    it.role.set({ wanted: true });
    await settle();
    it.finishStart(new Error('no such image'));
    await settle();
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'dead', lastError: 'no such image' });
    expect(it.role.waiting).toBe(0);
    await it.tree.clock.advance(500);
    expect(it.starts).toHaveLength(2);
  });

  test('fails and stops the workload when the plan throws', async () => {
    await using it = bench({
      plan: (role, running) => {
        if (running && role.peers === undefined) throw new Error('parsing peers');
        return plan(role, running);
      },
    });
    it.role.set({ wanted: true, peers: ['a'] });
    await settle();
    it.role.set({ wanted: true });
    await settle();
    expect(it.tree.at('root.worker')).toMatchObject({ state: 'dead', lastError: 'parsing peers' });
    expect(it.tree.at('root.worker.process').state).toBe('canceled');
  });

  test('refuses the plan "keep" if no workload runs', async () => {
    await using it = bench({ plan: () => ({ kind: 'keep' }) });
    it.role.set({ wanted: true });
    await settle();
    expect(it.tree.at('root.worker').lastError).toContain('root.worker: plan() returned "keep"');
  });

  test('leaves no subscription when the tree stops', async () => {
    const it = bench();
    it.role.set({ wanted: true });
    await settle();
    expect(it.role.waiting).toBe(1);
    it.tree.stop();
    await it.tree.finished;
    expect(it.role.waiting).toBe(0);
  });

  describe('with a workload that outlives its runs', () => {
    /** Without the role, the plan is `stop`, even if this run has not started the workload. */
    const planStop = (role: Role): Plan<string> =>
      role.wanted ? { kind: 'start', config: '' } : { kind: 'stop', why: 'role gone' };

    function retiring(retire: () => Promise<void>): { role: EventValue<Role>; tree: SupervisedTree } {
      const role = new EventValue<Role>();
      const start = (): Promise<void> => Promise.resolve();
      return {
        role,
        tree: superviseForTest(launcher({ input: role, plan: planStop, start, tearDown: retire })),
      };
    }

    test('tears the workload down once when the role is removed, also if another process started it', async () => {
      let retired = 0;
      const { role, tree } = retiring(async () => void retired++);
      for (let round = 0; round < 3; round++) {
        role.set({ wanted: false });
        await settle();
      }
      expect([retired, tree.at('root').note]).toEqual([1, 'role gone']);
      await tree[Symbol.asyncDispose]();
    });

    test('tears the workload down again after the role was added and removed', async () => {
      let retired = 0;
      const { role, tree } = retiring(async () => void retired++);
      for (const wanted of [false, true, false]) {
        role.set({ wanted });
        await settle();
      }
      expect([retired, tree.at('root').restarts]).toEqual([2, 1]);
      await tree[Symbol.asyncDispose]();
    });

    test('tries again after a pause when the teardown fails', async () => {
      let tries = 0;
      const { role, tree } = retiring(async () => {
        if (++tries === 1) throw new Error('unit is busy');
      });
      role.set({ wanted: false });
      await settle();
      expect(tree.at('root')).toMatchObject({ state: 'dead', lastError: 'unit is busy' });
      await tree.clock.advance(500);
      expect([tries, tree.at('root').note]).toEqual([2, 'role gone']);
      await tree[Symbol.asyncDispose]();
    });
  });
});
