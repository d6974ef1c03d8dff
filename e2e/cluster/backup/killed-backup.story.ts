import assert from 'node:assert/strict';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';
import { cliJson, StoryCluster } from '../harness/story-cluster.ts';
import { InitRun } from '../init/init-run.ts';
import { WatchedMachine } from '../init/watched-machine.ts';

const NAME = 'killedbackup';
const MIB = 1024 ** 2;
/** Makes each stage of a backup long enough to hit it. */
const BALLAST_MIB = 60;
const LOOK_MS = 5;
const STAGE_SECONDS = 180;
const PROVED_SECONDS = 240;

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

const killUnit =
  (unit: string): Strike =>
  async ({ cluster }) =>
    void (await cluster.sh('n1', `systemctl kill --signal=SIGKILL ${unit}`));

const STRIKES: Readonly<Record<string, Strike>> = {
  'kill -9 of the agent': async ({ machine }) => void (await machine.kill('agent')),
  'kill -9 of the state etcd': killUnit('cluster-etcd-state.service'),
  'kill -9 of the Kubernetes etcd': killUnit('cluster-etcd-kubernetes.service'),
  'a power cut': async ({ cluster }) => {
    await cluster.cutPower('n1');
    await cluster.start('n1');
  },
};

/** Where a node writes a backup before it is complete (bootstrapper/backup/schedule/backup-ring.ts). */
const RING = join('backups', 'work');
/** The stages of a scheduled backup by what lies on the disk of the node. Paths are relative to its state directory. */
const STAGES: Readonly<Record<string, string>> = {
  'writes the file': `${RING}/backup.partial`,
  'writes the snapshot of the Kubernetes etcd': `${RING}/kubernetes.snapshot`,
  'proves the state etcd': 'etcd-state/throwaway',
  'proves the Kubernetes etcd': 'etcd-kubernetes/throwaway',
};

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

  await story.test(
    '`backup create` is killed in each of its steps, and `backup verify` in each of its',
    async () => {
      const file = join(workspace, 'killed.backup');
      const create = ['--workspace', workspace, 'backup', 'create', '--to', file];
      for (const bytes of [1, 20 * MIB]) {
        const run = new InitRun(bench, create);
        await sizeAtLeast(`${file}.partial`, bytes);
        await run.kill();
        await assertAbsentOrGood(all, file);
      }
      assert.equal(await new InitRun(bench, create).ended, 0);
      const verify = ['--workspace', workspace, 'backup', 'verify', file];
      for (const step of ['backup-verify-file', 'backup-prove']) {
        const run = new InitRun(bench, verify);
        await run.until(({ type, code }) => type === 'step-started' && code === step);
        await run.kill();
      }
      assert.equal(await new InitRun(bench, verify).ended, 0);
      const left = (await readdir('/dev/shm')).filter((name) => name.startsWith('cluster-backup-'));
      assert.deepEqual(left, [], 'no decrypted backup is left in memory');
    },
  );

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
      await cluster.allReady(['n1'], 180);
      assert.equal(await new InitRun(bench, create).ended, 0, 'the same command succeeds');
      await assertAbsentOrGood(all, file);
    });

  await cliJson(bench, '--workspace', workspace, 'backup', 'schedule', 'set', '--every', '1m', '--keep', '2');
  await provedAfter(all, 0);
  const strikes = Object.entries(STRIKES);
  for (const [at, [stage, path]] of Object.entries(STAGES).entries()) {
    const [strike, hit] = strikes[at % strikes.length] ?? assert.fail();
    await story.test(`${strike} while the node ${stage}`, () => interruptSchedule(all, path, hit));
  }
  await story.test('kill -9 of the throwaway etcd that proves a backup', () =>
    interruptSchedule(all, 'etcd-kubernetes/throwaway', async () => {
      await cluster.sh('n1', 'systemctl kill --signal=SIGKILL cluster-etcd-proof.service || true');
    }),
  );

  await story.test('what the node keeps is complete, and nothing decrypted is left', async () => {
    await cliJson(bench, '--workspace', workspace, 'backup', 'schedule', 'stop', '--yes');
    const fetched = join(workspace, 'fetched.backup');
    await cliJson(bench, '--workspace', workspace, 'backup', 'fetch', '--to', fetched);
    await assertAbsentOrGood(all, fetched);
    await eventually(
      'no decrypted data is on the disk of the node',
      120,
      () =>
        cluster.sh(
          'n1',
          'find /var/lib/cluster/backups/work /var/lib/cluster/etcd-*/throwaway -type f 2>/dev/null || true',
        ),
      (text) => text === '',
    );
  });
});

/** Interrupts a scheduled backup when a path appears on the node, and waits for a later backup that is proved. */
async function interruptSchedule(story: Story, path: string, hit: Strike): Promise<void> {
  const { machine } = story;
  const before = Math.max(0, ...(await keptOn(story)).map(({ seq }) => seq));
  await sizeAtLeast(machine.state(path), 1);
  await hit(story);
  await story.cluster.allReady(['n1'], 180);
  await provedAfter(story, before + 1);
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
