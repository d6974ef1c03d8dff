import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { runDrain, runReboot, runReset, runSetRole } from './index.ts';
import { createStatefulCluster } from './removal/fake-stateful-cluster.ts';

const careful = { force: false, deleteEmptyDirData: false, timeoutMs: 60_000 };
const ruthless = { ...careful, force: true, deleteEmptyDirData: true };
const asked = { dryRun: false, yes: false };
const ALONE = 'pods that no controller recreates: default/on-n4';
const DATA = 'the data in the emptyDir volumes of default/on-n4';

let living: Awaited<ReturnType<typeof createStatefulCluster>>;
beforeEach(async () => {
  living = await createStatefulCluster();
});
afterEach(async () => {
  await living[Symbol.asyncDispose]();
});

/** Whether the node has its pod and may get more. */
const untouched = (): boolean =>
  living.cluster.state.pods.includes('n4') &&
  living.cluster.state.kubernetes.find(({ name }) => name === 'n4')?.isCordoned === false;

describe('runDrain()', () => {
  test('asks nothing when no pod and no data would be lost', async () => {
    await runDrain(living.program(Infinity), 'n4', { ...ruthless, ...asked });
    expect(living.cluster.state.pods).toEqual(['n3']);
  });

  test.each([
    { kind: 'alone', loss: ALONE },
    { kind: 'with-data', loss: DATA },
  ] as const)('needs a confirmation before a pod is lost: $kind', async ({ kind, loss }) => {
    living.cluster.state.podKinds = { n4: kind };
    await expect(runDrain(living.program(Infinity), 'n4', { ...ruthless, ...asked })).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      details: { losses: [loss] },
    });
    expect(untouched()).toBe(true);
    await runDrain(living.program(Infinity), 'n4', { ...ruthless, ...asked, yes: true });
    expect(living.cluster.state.pods).toEqual(['n3']);
  });

  test('refuses without its flags to lose a pod, also with --yes, before it cordons the node', async () => {
    living.cluster.state.podKinds = { n4: 'alone' };
    await expect(
      runDrain(living.program(Infinity), 'n4', { ...careful, dryRun: false, yes: true }),
    ).rejects.toMatchObject({ code: 'nodes-drain-blocked' });
    expect(untouched()).toBe(true);
  });

  test('with --dry-run shows the pods and the losses, and changes nothing', async () => {
    living.cluster.state.podKinds = { n4: 'with-data' };
    const program = living.program(Infinity);
    await runDrain(program, 'n4', { ...ruthless, dryRun: true, yes: false });
    expect(program.host.answered).toEqual({
      node: 'n4',
      dryRun: true,
      moves: ['default/on-n4'],
      losses: [DATA],
    });
    expect(untouched()).toBe(true);
  });
});

describe('a command that drains a node', () => {
  const power = { drains: true, drain: ruthless, waitMs: 60_000, ...asked };
  test.each([
    { command: 'node reboot', run: (program: Program) => runReboot(program, 'n4', power) },
    {
      command: 'node set-role',
      run: (program: Program) =>
        runSetRole(program, 'n4', { ...asked, roles: ['control-plane'], drain: ruthless }),
    },
    {
      command: 'node reset',
      run: (program: Program) => runReset(program, 'n4', { ...asked, drain: ruthless }),
    },
  ])('names the pods that its drain would lose: $command', async ({ run }) => {
    living.cluster.state.podKinds = { n4: 'alone' };
    await expect(run(living.program(Infinity))).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      details: { losses: expect.arrayContaining([ALONE]) as unknown },
    });
    expect(untouched()).toBe(true);
  });
});

type Program = ReturnType<typeof living.program>;
