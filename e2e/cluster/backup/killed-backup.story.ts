import assert from 'node:assert/strict';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SCHEDULED_STEPS, type ScheduledStep } from '../../../internal/backup/index.ts';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';
import { InitRun } from '../init/init-run.ts';
import { WatchedMachine } from '../init/watched-machine.ts';
import { untilStep } from './scheduled-step.ts';

const NAME = 'killedbackup';
const MIB = 1024 ** 2;
/** Makes each step of a backup long enough to hit it. */
const BALLAST_MIB = 24;
const LOOK_MS = 5;
const STAGE_SECONDS = 180;
const PROVED_SECONDS = 240;
const READY_SECONDS = 240;
/** Steps in which a program of the proof runs. */
const PROOF_STEPS: readonly ScheduledStep[] = SCHEDULED_STEPS.filter((step) =>
  /^(restore|compare)-/.test(step),
);

interface Kept {
  readonly seq: number;
  readonly proof: string;
}

/** What can end in the middle of a backup. */
type Strike = (story: Story) => Promise<void>;

interface Story {
  readonly bench: Harness;
  readonly cluster: StoryCluster;
  readonly machine: WatchedMachine;
  readonly workspace: string;
}

const killUnits =
  (...units: readonly string[]): Strike =>
  async ({ cluster }) =>
    void (await cluster.sh(
      'n1',
      units.map((unit) => `systemctl kill --signal=SIGKILL ${unit} 2>/dev/null || true`).join('\n'),
    ));

const STRIKES: Readonly<Record<string, Strike>> = {
  'kill -9 of the agent': async ({ machine }) => void (await machine.kill('agent')),
  'kill -9 of both etcd members': killUnits('cluster-etcd-state.service', 'cluster-etcd-kubernetes.service'),
  'a power cut': async ({ cluster }) => {
    await cluster.cutPower('n1');
    await cluster.start('n1');
  },
};
const killProof = killUnits('cluster-etcd-proof-restore.service', 'cluster-etcd-proof.service');

await test('a backup that is interrupted anywhere leaves the old backup or the new one, and the next one succeeds', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  const workspace = await cluster.workspace();
  const machine = await WatchedMachine.joining(bench, NAME, 'n1');
  const all: Story = { bench, cluster, machine, workspace };
  const put = [...etcdctlArgv('kubernetes-root'), 'put'].join(' ');
  await cluster.sh(
    'n1',
    `for i in $(seq ${BALLAST_MIB}); do head -c 786432 /dev/urandom | base64 --wrap 0 | ${put} /ballast/$i >/dev/null; done`,
  );

  await story.test('`backup create` and `backup verify` are killed in each of their steps', async (step) => {
    const file = join(workspace, 'killed.backup');
    const create = ['--workspace', workspace, 'backup', 'create', '--to', file];
    const verify = ['--workspace', workspace, 'backup', 'verify', file];
    for (const bytes of [1, 10 * MIB]) {
      const run = new InitRun(bench, create);
      await sizeAtLeast(`${file}.partial`, bytes);
      await run.kill();
      await assertAbsentOrGood(all, file);
    }
    for (const command of [create, verify]) {
      const whole = new InitRun(bench, command);
      assert.equal(await whole.ended, 0, whole.said());
      const steps = whole.lines.flatMap(({ type, code }) => (type === 'step-started' ? [code] : []));
      assert.notEqual(steps.length, 0);
      for (const code of steps) {
        if (command === create) await rm(file);
        const run = new InitRun(bench, command);
        await run.until((line) => line.type === 'step-started' && line.code === code);
        await run.kill();
        await assertAbsentOrGood(all, file);
        if (command === create && (await stat(file).catch(() => undefined)) === undefined)
          assert.equal(await new InitRun(bench, create).ended, 0, 'the same command succeeds');
      }
      step.diagnostic(`${command[2]} ${command[3]}: killed in ${steps.join(', ')}`);
    }
    assert.equal(await new InitRun(bench, verify).ended, 0);
    const left = (await readdir('/dev/shm')).filter((name) => name.startsWith('cluster-backup-'));
    assert.deepEqual(left, [], 'no decrypted backup is left in memory');
  });

  for (const [strike, hit] of Object.entries(STRIKES))
    await story.test(`${strike} while the workstation receives a backup`, async () => {
      const file = join(workspace, `${strike.replaceAll(/\W+/g, '-')}.backup`);
      const create = ['--workspace', workspace, 'backup', 'create', '--to', file];
      const run = new InitRun(bench, create);
      await sizeAtLeast(`${file}.partial`, 10 * MIB);
      await hit(all);
      const code = await run.ended;
      if (code !== 0) assert.match(run.outcome()?.code ?? '', /^[a-z-]+$/, run.said());
      await assertAbsentOrGood(all, file);
      await rm(file, { force: true });
      await cluster.allReady(['n1'], READY_SECONDS);
      assert.equal(await new InitRun(bench, create).ended, 0, 'the same command succeeds');
      await assertAbsentOrGood(all, file);
    });

  await cliJson(bench, '--workspace', workspace, 'backup', 'schedule', 'set', '--every', '1m', '--keep', '2');
  await provedAfter(all, 0);
  const inEachStep: readonly (readonly [string, readonly ScheduledStep[], Strike])[] = [
    ...Object.entries(STRIKES).map(([name, hit]) => [name, SCHEDULED_STEPS, hit] as const),
    ['kill -9 of etcdutl and of the throwaway etcd', PROOF_STEPS, killProof],
  ];
  for (const [strike, steps, hit] of inEachStep)
    await story.test(`${strike} in each step of a scheduled backup`, async (parent) => {
      for (const step of steps)
        await parent.test(`in the step ${step}`, () => interruptSchedule(all, step, hit));
      await cluster.allReady(['n1'], READY_SECONDS);
    });

  await story.test('what the node keeps is complete, and nothing decrypted is left', async () => {
    await provedAfter(all, 1 + Math.max(...(await keptOn(all)).map(({ seq }) => seq)));
    await cliJson(bench, '--workspace', workspace, 'backup', 'schedule', 'stop', '--yes');
    const fetched = join(workspace, 'fetched.backup');
    await cliJson(bench, '--workspace', workspace, 'backup', 'fetch', '--to', fetched);
    await assertAbsentOrGood(all, fetched);
    await eventually(
      'no decrypted data and no mount is left',
      120,
      () => leftOn(all),
      (text) => text === '',
    );
  });
});

/**
 * Interrupts a scheduled backup when a step begins. Afterwards the disk has a proved backup, as before. The schedule goes on, because
 * the next strike waits for its step. Does not wait for Kubernetes.
 */
async function interruptSchedule(story: Story, step: ScheduledStep, hit: Strike): Promise<void> {
  const { cluster } = story;
  await untilStep(cluster, 'n1', step, PROVED_SECONDS);
  await hit(story);
  const proved = await eventually(
    'the machine runs',
    PROVED_SECONDS,
    () =>
      cluster.sh(
        'n1',
        'cd /var/lib/cluster/backups/kept; for each in *.proved; do ls "${each%.proved}"; done',
      ),
    (text) => text !== '',
  );
  assert.match(proved, /^[0-9]{8}-\S*\.backup$/m);
}

/** Unencrypted files of a proof on the node, and its mount, while no backup is taken. */
function leftOn({ cluster }: Story): Promise<string> {
  return cluster.sh(
    'n1',
    `find /var/lib/cluster/backups/work /var/lib/cluster/etcd-*/throwaway /run/cluster/backup-proof -type f 2>/dev/null || true
     grep backup-proof /proc/1/mountinfo || true`,
  );
}

async function keptOn({ bench, workspace }: Story): Promise<readonly Kept[]> {
  const workspaceOf = ['--workspace', workspace];
  return (await cliJson<{ readonly backups: readonly Kept[] }>(bench, ...workspaceOf, 'backup', 'ls'))
    .backups;
}

async function provedAfter(story: Story, seq: number): Promise<void> {
  await eventually(
    `a proved backup with a number of at least ${seq}`,
    PROVED_SECONDS,
    () => keptOn(story),
    (all) => all.some((each) => each.seq >= seq && each.proof === 'CONTENT-PROVED'),
  );
}

/** A file that has its final name is complete: its content is proved. */
async function assertAbsentOrGood({ bench, workspace }: Story, file: string): Promise<void> {
  if ((await stat(file).catch(() => undefined)) === undefined) return;
  const verified = await cliJson<{ readonly status: string }>(
    bench,
    ...['--workspace', workspace, 'backup', 'verify', file],
  );
  assert.equal(verified.status, 'FILE-PROVED');
}

async function sizeAtLeast(path: string, bytes: number): Promise<void> {
  for (const deadline = Date.now() + STAGE_SECONDS * 1000; Date.now() < deadline;) {
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && (found.isDirectory() || found.size >= bytes)) return;
    await delay(LOOK_MS);
  }
  throw new Error(`${path} did not get ${bytes} bytes within ${STAGE_SECONDS} s`);
}
