import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { NodeHealth } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { createStatefulCluster, idOf } from './fake-stateful-cluster.ts';
import {
  runApprove,
  runCordon,
  runDrain,
  runLabel,
  runReboot,
  runRefuse,
  runRemove,
  runReset,
  runSetRole,
  runShutdown,
  runTaint,
  unfinishedRemovals,
} from '../index.ts';
import { runKeysRotate } from '../../keys/index.ts';
import { runOperatorRemove } from '../../operators/index.ts';

type Living = Awaited<ReturnType<typeof createStatefulCluster>>;
type Program = ReturnType<Living['program']>;

/** A command runs twice for each of its effects. */
const LIMIT_MS = 300_000;
const drain = { force: false, deleteEmptyDirData: false, timeoutMs: 60_000 };
const agreed = { dryRun: false, yes: true, drain } as const;
const powered = { ...agreed, drains: true, waitMs: 60_000 } as const;
const leaving = { ...agreed, keys: { keep: true, wait: false } } as const;

interface Case {
  readonly command: string;
  readonly what: string;
  readonly run: (program: Program) => Promise<unknown>;
}

/** The tests of the other commands are listed in interrupted-elsewhere.test.ts, which reads the commands of this list. */
const cases: readonly Case[] = [
  { command: 'node label', what: 'a node', run: (program) => runLabel(program, 'n4', ['zone=a']) },
  {
    command: 'node taint',
    what: 'a node',
    run: (program) => runTaint(program, 'n4', ['dedicated=gpu:NoSchedule'], { dryRun: false, yes: false }),
  },
  { command: 'node cordon', what: 'a node', run: (program) => runCordon(program, 'n4', false) },
  { command: 'node uncordon', what: 'a node', run: (program) => runCordon(program, 'n4', true) },
  {
    command: 'node drain',
    what: 'a worker',
    run: (program) => runDrain(program, 'n4', { ...drain, dryRun: false, yes: true }),
  },
  { command: 'node reboot', what: 'a worker', run: (program) => runReboot(program, 'n4', powered) },
  { command: 'node reboot', what: 'a control plane', run: (program) => runReboot(program, 'n3', powered) },
  { command: 'node shutdown', what: 'a worker', run: (program) => runShutdown(program, 'n4', powered) },
  {
    command: 'node set-role',
    what: 'a worker becomes a control plane',
    run: (program) => runSetRole(program, 'n4', { ...agreed, roles: ['control-plane'] }),
  },
  {
    command: 'node set-role',
    what: 'a control plane becomes a worker',
    run: (program) => runSetRole(program, 'n3', { ...agreed, roles: ['worker'] }),
  },
  {
    command: 'node set-role',
    what: 'a control plane loses the role worker',
    run: (program) => runSetRole(program, 'n3', { ...agreed, roles: ['control-plane'] }),
  },
  {
    command: 'node remove',
    what: 'a worker',
    run: (program) => runRemove(program, 'n4', { ...leaving, isLost: false }),
  },
  {
    command: 'node remove',
    what: 'a control plane',
    run: (program) => runRemove(program, 'n3', { ...leaving, isLost: false }),
  },
  {
    command: 'node remove',
    what: 'a machine that is lost',
    run: (program) => runRemove(program, 'n3', { ...leaving, isLost: true }),
  },
  { command: 'node reset', what: 'a worker', run: (program) => runReset(program, 'n4', agreed) },
  { command: 'node reset', what: 'a control plane', run: (program) => runReset(program, 'n3', agreed) },
  {
    command: 'node approve',
    what: 'a machine',
    run: (program) => runApprove(program, 'join-1', { name: undefined, roles: ['worker'], labels: {} }),
  },
  {
    command: 'node refuse',
    what: 'a machine',
    run: (program) => runRefuse(program, 'join-1', { reason: 'unknown' }),
  },
  {
    command: 'operator remove',
    what: 'an operator',
    run: (program) => runOperatorRemove(program, 'ann', { dryRun: false, yes: true }),
  },
  {
    command: 'keys rotate',
    what: 'a rotation that the command does not wait for',
    run: (program) =>
      runKeysRotate(program, { reason: '', wait: false, replace: undefined, dryRun: false, yes: true }),
  },
];

let living: Living;
beforeAll(async () => {
  living = await createStatefulCluster();
});
afterAll(() => living[Symbol.asyncDispose]());

/** Runs the command, and interrupts it at its effect number `at`. An interrupted command must fail. */
async function runOnce({ run }: Case, at: number): Promise<void> {
  const program = living.program(at);
  if (at === Infinity) await run(program);
  else await expect(run(program)).rejects.toBeDefined();
}

describe('a command that was interrupted at any point reaches the same state in a second run', () => {
  test.each(cases)(
    '$command: $what',
    async (one) => {
      await living.reset();
      await runOnce(one, Infinity);
      const [wanted, points] = [structuredClone(living.cluster.state), living.points.reached];
      expect(points).toBeGreaterThan(1);
      for (let at = 1; at <= points; at++) {
        await living.reset();
        await runOnce(one, at);
        await runOnce(one, Infinity);
        expect({ at, state: living.cluster.state }).toEqual({ at, state: wanted });
      }
    },
    LIMIT_MS,
  );

  const removals = cases.filter(({ command }) => command === 'node remove' || command === 'node reset');
  test.each(removals)(
    '$command of $what leaves a trace for `status` once the node has lost its roles',
    async (one) => {
      await living.reset();
      const told = async (): Promise<readonly string[]> => {
        const { nodes } = living.cluster.state;
        const views = nodes.map(({ nodeId: id, roles }) => ({
          id,
          roles: roles.map(() => 'worker' as const),
        }));
        return unfinishedRemovals(living.program(Infinity), views);
      };
      await runOnce(one, Infinity);
      const points = living.points.reached;
      expect(points).toBeGreaterThan(1);
      expect(await told()).toEqual([]); // also starts to count the points again
      const before = living.cluster.state.nodes.length + 1;
      for (let at = 1; at <= points; at++) {
        await living.reset();
        await runOnce(one, at);
        const { nodes } = living.cluster.state;
        const isWhole = nodes.length === before && nodes.every(({ roles }) => roles.length > 0);
        const isComplete = at === points; // interrupted after its last effect
        if (!isWhole && !isComplete)
          expect([at, await told()]).toEqual([at, [expect.stringMatching(/run `cluster node re/)]]);
        await runOnce(one, Infinity);
        expect([at, await told()]).toEqual([at, []]);
      }
    },
  );
});

test('node remove --lost goes on when every third call of a curator fails', async () => {
  await living.reset();
  living.cluster.failsEveryThird = true;
  try {
    const program = living.program(Infinity);
    await runRemove(program, 'n3', { ...leaving, isLost: true });
    expect(living.cluster.state.nodes.map(({ name }) => name)).toEqual(['n1', 'n2', 'n4']);
    const warned = program.host.records.filter((each) => 'code' in each && each.code === 'curator-retrying');
    expect(warned.length).toBeGreaterThan(0);
  } finally {
    living.cluster.failsEveryThird = false;
  }
});

describe('a node whose name another machine has taken', () => {
  test('an interrupted reset continues with the original node', async () => {
    await living.reset();
    await runReset(living.program(Infinity), 'n4', agreed);
    const points = living.points.reached;
    await living.reset();
    await expect(runReset(living.program(points - 2), 'n4', agreed)).rejects.toBeDefined();
    const { state } = living.cluster;
    const [first] = state.nodes;
    if (first === undefined) throw new Error('there are nodes');
    const newcomer = { ...structuredClone(first), name: 'n4', nodeId: idOf('n9') };
    state.nodes.push(newcomer);
    state.kubernetes.push({ name: 'n4', cordonedBy: '', isCordoned: false });
    await runReset(living.program(Infinity), 'n4', agreed);
    expect(state.nodes).toContainEqual(newcomer);
    expect(state.kubernetes.map(({ name }) => name)).toContain('n4');
  });
});

describe('node reset of a node that is removed already', () => {
  const ordered = () => living.cluster.state.machines['n4'] === 'fresh';

  test('is refused after node remove: its machine takes no order', async () => {
    await living.reset();
    await runRemove(living.program(Infinity), 'n4', { ...leaving, isLost: false });
    for (const options of [agreed, { ...agreed, dryRun: true }])
      await expect(runReset(living.program(Infinity), 'n4', options)).rejects.toMatchObject({
        code: 'nodes-already-removed',
        exit: 'precondition',
      });
    expect(ordered()).toBe(false);
  });

  test('is refused for a node that this workspace does not know', async () => {
    await living.reset();
    await expect(runReset(living.program(Infinity), idOf('n9'), agreed)).rejects.toMatchObject({
      code: 'nodes-already-removed',
    });
  });

  test('can be repeated after node reset, and after a node remove that completed an interrupted reset', async () => {
    for (const completes of [runReset, runRemove]) {
      await living.reset();
      await runReset(living.program(Infinity), 'n4', agreed);
      const points = living.points.reached;
      await living.reset();
      await expect(runReset(living.program(points - 12), 'n4', agreed)).rejects.toBeDefined();
      expect([ordered(), living.cluster.state.nodes.length]).toEqual([true, 4]);
      await completes(living.program(Infinity), 'n4', { ...leaving, isLost: true });
      await runReset(living.program(Infinity), 'n4', agreed);
      expect(living.cluster.state.nodes).toHaveLength(3);
    }
  });
});

describe('a command that is repeated after a node was removed', () => {
  const withKeys = { ...leaving, keys: { keep: false, wait: false } } as const;
  const said = async (run: (program: Program) => Promise<unknown>): Promise<string> => {
    const program = living.program(Infinity);
    await run(program);
    return program.host.records.flatMap((each) => (each.kind === 'result' ? [each.text] : [])).join('\n');
  };

  test.each([
    {
      what: 'remove of a worker',
      run: (program: Program) => runRemove(program, 'n4', { ...withKeys, isLost: false }),
      keys: /^(?!.*keys)/s,
    },
    {
      what: 'remove of a control plane',
      run: (program: Program) => runRemove(program, 'n3', { ...withKeys, isLost: false }),
      keys: /They were wiped from its disk\. An earlier copy is not revoked/,
    },
    {
      what: 'remove --lost --keep-keys of a control plane',
      run: (program: Program) => runRemove(program, 'n3', { ...leaving, isLost: true }),
      isLost: true,
      keys: /They were not wiped from its disk and are not revoked/,
    },
    {
      what: 'reset of a control plane',
      run: (program: Program) => runReset(program, 'n3', agreed),
      keys: /They were wiped from its disk\. An earlier copy is not revoked/,
    },
    {
      what: 'reset of a worker',
      run: (program: Program) => runReset(program, 'n4', agreed),
      keys: /^(?!.*keys)/s,
    },
  ])('$what says the same about shared keys as the first run', async ({ run, keys, isLost = false }) => {
    await living.reset();
    const n3 = living.cluster.state.nodes.find(({ name }) => name === 'n3');
    if (n3 !== undefined && isLost) n3.health = NodeHealth.TIMEOUT;
    const first = await said(run);
    expect(first).toMatch(keys);
    expect(await said(run)).toBe(first);
  });
});
