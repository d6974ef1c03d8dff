import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';
import { change, containersOf, deployApp, reportOf } from './rotation-app.ts';

const NAME = 'keysrough';
const MACHINES = ['n1', 'n2', 'n3'];
/** n3 works: it is off from the second phase on, until control planes show what the new keys make. */
const CONTROL_PLANES = ['n1', 'n2'];
const ROTATION_SECONDS = 540;
/** While one of two members of etcd starts again, the other one has no quorum and no API server answers. */
const PAUSE_MS = 30_000;

interface Shown {
  readonly keys: { readonly generation: number; readonly phase: string; readonly isDone: boolean };
}

await test('key rotation completes while agents are killed in each phase and a worker is off', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '2', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
  const first = new NodeShell(bench, NAME);
  await deployApp(first, MACHINES);
  const before = await containersOf(first, CONTROL_PLANES);

  await story.test(
    'the rotation ends as it should when every agent is killed in every phase',
    async (step) => {
      await must('keys', 'rotate', '--yes', '--no-wait', '--reason', 'story');
      const seen: string[] = [];
      const deadlineMs = Date.now() + ROTATION_SECONDS * 1000;
      for (let isDone = false; !isDone;) {
        assert.ok(Date.now() < deadlineMs, `no end after ${seen.join(' ')}`);
        // etcd of two control planes has no quorum while one of them starts again.
        const shown = await cluster.cliJson<Shown>('keys', 'show').catch(() => undefined);
        const { phase = '', isDone: isOver = false } = shown?.keys ?? {};
        isDone = isOver;
        if (phase !== '' && seen.at(-1) !== phase) {
          seen.push(phase);
          step.diagnostic(`${new Date().toISOString()} ${phase}`);
          if (phase === 'believe') await cluster.cutPower('n3');
          if (phase === 'refresh') await cluster.start('n3');
          for (const machine of CONTROL_PLANES)
            await cluster.try(machine, 'systemctl', 'kill', '--signal', 'KILL', 'bootstrapper');
        }
        await delay(700);
      }
      // The first two are over too soon to be seen each time.
      const lasting = seen.filter((phase) => phase !== 'asked' && phase !== 'hand');
      assert.deepEqual(lasting, ['believe', 'issue', 'refresh', 'retire', 'done']);
    },
  );

  await story.test('the worker that was off follows the rotation', async () => {
    await cluster.allReady(MACHINES, 180);
    await eventually(
      'its app asks the API',
      120,
      () => reportOf(first, 'n3'),
      ({ good }) => good > 3,
    );
  });

  await story.test(
    'pods of the others are the same, and never were without the API for long',
    async (step) => {
      assert.deepEqual(await containersOf(first, CONTROL_PLANES), before);
      for (const name of CONTROL_PLANES) {
        const report = await reportOf(first, name);
        step.diagnostic(`${name}: ${JSON.stringify(report)}`);
        assert.equal(report.refused, 0, `${name}: its token was refused`);
        assert.ok(report.longestMs < PAUSE_MS, `${name}: ${report.longestMs} ms without the API`);
      }
      await change(first, 9);
      for (const name of CONTROL_PLANES)
        await eventually(
          `the watch of ${name} brings the change`,
          30,
          () => reportOf(first, name),
          ({ watched }) => watched === 9,
        );
    },
  );

  await story.test(
    'the workspace was not there to follow: its kubeconfig is refused, and recreated',
    async () => {
      const { stdout } = await bench.cli('--workspace', workspace, 'status');
      assert.match(stdout, /kubernetes +not reached/);
      await must('kubeconfig', '--renew');
      await eventually(
        'the cluster is healthy',
        60,
        () => bench.cli('--workspace', workspace, 'status'),
        ({ code }) => code === 0,
      );
    },
  );
});
