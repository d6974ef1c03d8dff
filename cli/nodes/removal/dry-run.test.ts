import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { TAKING_AWAY } from '../../app/command-effects.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { runKeysRotate } from '../../keys/index.ts';
import { runOperatorRemove } from '../../operators/index.ts';
import { runDrain, runReboot, runRemove, runReset, runSetRole, runShutdown, runTaint } from '../index.ts';
import { createStatefulCluster } from './fake-stateful-cluster.ts';

type Living = Awaited<ReturnType<typeof createStatefulCluster>>;
type Program = ReturnType<Living['program']>;

const drain = { force: true, deleteEmptyDirData: true, timeoutMs: 60_000 };
/** `--yes` does not make a dry run real. */
const dry = { dryRun: true, yes: true, drain } as const;
const power = { ...dry, drains: true, waitMs: 60_000 } as const;
const remove = { ...dry, keys: { keep: false, wait: false } } as const;
const rotate = { reason: '', wait: true, replace: undefined } as const;

interface Case {
  readonly command: string;
  readonly what: string;
  readonly run: (program: Program) => Promise<unknown>;
  /** One pattern for each consequence that is shown. */
  readonly losses: readonly RegExp[];
}

const POD_DATA = /default\/on-n4/;
const CONTROL_PLANE = /its API server, its curator and its etcd member, with their data/;

const cases: readonly Case[] = [
  {
    ...{ command: 'node drain', what: 'a worker' },
    run: (program) => runDrain(program, 'n4', { ...dry.drain, dryRun: true, yes: true }),
    losses: [POD_DATA],
  },
  {
    ...{ command: 'node taint', what: 'a worker' },
    run: (program) => runTaint(program, 'n4', ['spot:NoExecute'], { dryRun: true, yes: true }),
    losses: [/^pods that do not tolerate spot:NoExecute .*default\/on-n4$/, POD_DATA],
  },
  {
    ...{ command: 'node set-role', what: 'a control plane becomes a worker' },
    run: (program) => runSetRole(program, 'n3', { ...dry, roles: ['worker'] }),
    losses: [/^role control-plane: .* its etcd member and its keys are deleted/],
  },
  {
    ...{ command: 'node set-role', what: 'a worker becomes a control plane' },
    run: (program) => runSetRole(program, 'n4', { ...dry, roles: ['control-plane'] }),
    losses: [/^role worker: its pods are evicted/, POD_DATA],
  },
  {
    ...{ command: 'node reboot', what: 'a worker' },
    run: (program) => runReboot(program, 'n4', power),
    losses: [POD_DATA],
  },
  {
    ...{ command: 'node shutdown', what: 'a worker' },
    run: (program) => runShutdown(program, 'n4', power),
    losses: [/^the machine of n4 is off/, POD_DATA],
  },
  {
    ...{ command: 'node remove', what: 'a worker' },
    run: (program) => runRemove(program, 'n4', { ...remove, isLost: false }),
    losses: [/^its membership: node-/, /^its pods, by eviction/, POD_DATA],
  },
  {
    ...{ command: 'node remove', what: 'a control plane' },
    run: (program) => runRemove(program, 'n3', { ...remove, isLost: false }),
    losses: [/^its membership: node-/, CONTROL_PLANE, /^its pods, by eviction/],
  },
  {
    ...{ command: 'node remove', what: 'a control plane that is lost' },
    run: (program) => runRemove(program, 'n3', { ...remove, isLost: true }),
    losses: [
      /^its membership: node-/,
      CONTROL_PLANE,
      /^its pods, without/,
      /^the keys that all control planes/,
    ],
  },
  {
    ...{ command: 'node reset', what: 'a worker' },
    run: (program) => runReset(program, 'n4', dry),
    losses: [/^its membership: node-/, /^its pods, by eviction/, /^all data of the cluster on the/, POD_DATA],
  },
  {
    ...{ command: 'node reset', what: 'a control plane' },
    run: (program) => runReset(program, 'n3', dry),
    losses: [/^its membership: node-/, CONTROL_PLANE, /^its pods, by/, /^all data of the cluster on the/],
  },
  {
    ...{ command: 'operator remove', what: 'an operator' },
    run: (program) => runOperatorRemove(program, 'ann', { dryRun: true, yes: true }),
    losses: [/^role operator of ann: every curator refuses the key/],
  },
  {
    ...{ command: 'keys rotate', what: 'the keys of the init' },
    run: (program) => runKeysRotate(program, { ...rotate, dryRun: true, yes: true }),
    losses: [/^all existing kubeconfigs/, /^all existing service account tokens/, /^one control plane after/],
  },
];

/** The other commands that take something away, and the tests that run them with --dry-run. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'config apply': 'cli/configuration/apply-configuration.test.ts',
  'backup delete': 'cli/backup/manage-backups.test.ts',
  'backup schedule set': 'cli/backup/schedule/schedule.test.ts',
  'backup schedule stop': 'cli/backup/schedule/schedule.test.ts',
  'operator add': 'cli/operators/operator-losses.test.ts',
  restore: 'cli/backup/restore-backup.test.ts',
  'recover quorum': 'cli/recover/recover.test.ts',
  'recover space': 'cli/recover/recover-space.itest.ts',
  'attest approve': 'cli/nodes/disk/approve-disk.test.ts',
  'node rotate-disk-keys': 'cli/nodes/disk/rotate-disk-keys.test.ts',
  'recover disk': 'cli/recover/recover-disk.itest.ts',
  'mini down': 'cli/mini/manage-machines.test.ts',
  'mini stop': 'cli/mini/manage-machines.test.ts',
};

let living: Living;
beforeAll(async () => {
  living = await createStatefulCluster();
});
afterAll(() => living[Symbol.asyncDispose]());
beforeEach(async () => {
  await living.reset();
  living.cluster.state.podKinds = { n4: 'with-data' };
});

/** The cluster, what runs on its machines, and the workspace. */
const everything = async (program: Program): Promise<unknown> => {
  const { state, boots } = living.cluster;
  const { files } = program.ports;
  const names = await files.list('/owner');
  const texts = names.map(async (name) => [
    name,
    Buffer.from((await files.read(`/owner/${name}`, 1_000_000)) ?? '').toString('base64'),
  ]);
  return structuredClone({
    state,
    boots,
    workspace: Object.fromEntries(await Promise.all(texts)) as unknown,
  });
};

describe('with --dry-run', () => {
  test.each(cases)(
    '$command shows what would be lost, and changes nothing: $what',
    async ({ run, losses }) => {
      const program = living.program(Infinity);
      const before = await everything(program);
      await run(program);
      expect(living.points.reached).toBe(0);
      expect(await everything(program)).toEqual(before);
      const [result, ...more] = program.host.records;
      if (result?.kind !== 'result') throw new Error('there is no result');
      expect(more).toEqual([]);
      expect(result.text).toContain('Nothing was changed.');
      expect(result.data).toMatchObject({
        dryRun: true,
        losses: losses.map((loss) => expect.stringMatching(loss) as unknown),
      });
      for (const loss of (result.data as { readonly losses: readonly string[] }).losses)
        expect(result.text).toContain(loss);
    },
  );

  test.each([
    { what: 'some', kept: [1, 2], others: [3], want: 'the 2 backups on its disk' },
    {
      what: 'the newest one',
      kept: [2, 3],
      others: [1],
      want: 'the 2 backups on its disk, among them the newest one that was proved',
    },
    {
      what: 'all proved ones',
      kept: [3],
      others: [],
      want: expect.stringMatching(/^the 1 backup on its disk, and with them every proved backup/) as unknown,
    },
  ])('node remove and node reset name the scheduled backups of a control plane: $what', async (backups) => {
    const of = (node: string, seqs: readonly number[]) => seqs.map((seq) => ({ seq, node, isProved: true }));
    living.cluster.state.backups = [...of('n3', backups.kept), ...of('n2', backups.others)];
    for (const run of [runRemove, runReset] as const) {
      const program = living.program(Infinity);
      await run(program, 'n3', { ...remove, isLost: false });
      expect(program.host.answered).toMatchObject({
        losses: expect.arrayContaining([backups.want]) as unknown,
      });
    }
  });

  test('node remove --lost promises nothing of a machine that does not respond', async () => {
    const program = living.program(Infinity);
    await runRemove(program, 'n3', { ...remove, isLost: true });
    const [result] = program.host.records;
    expect(result?.kind === 'result' && result.data).toMatchObject({
      steps: [
        'remove its etcd members',
        expect.stringContaining('decommission it'),
        expect.stringContaining('delete its records'),
        expect.stringContaining('replace the keys'),
      ],
    });
  });

  test('every command that takes something away is run here or elsewhere', () => {
    const known = [...cases.map(({ command }) => command), ...Object.keys(ELSEWHERE)];
    expect([...new Set(known)].sort()).toEqual([...TAKING_AWAY].sort());
  });
});

describe('operator remove without --yes', () => {
  const asked = { dryRun: false, yes: false };

  test('is refused without a terminal, and names what would be lost', async () => {
    const program = living.program(Infinity);
    await expect(runOperatorRemove(program, 'ann', asked)).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      details: { losses: [expect.stringContaining('role operator of ann')] },
    });
    expect([living.points.reached, living.cluster.state.operators]).toEqual([0, ['ann']]);
  });

  test('asks at a terminal, and removes the operator only after a yes', async () => {
    const at = (answer: boolean) => ({
      ...living.program(Infinity),
      host: new RecordingHost({ answer: () => answer }),
    });
    await expect(runOperatorRemove(at(false), 'ann', asked)).rejects.toMatchObject({ code: 'loss-declined' });
    expect(living.cluster.state.operators).toEqual(['ann']);
    await runOperatorRemove(at(true), 'ann', asked);
    expect(living.cluster.state.operators).toEqual([]);
  });
});
