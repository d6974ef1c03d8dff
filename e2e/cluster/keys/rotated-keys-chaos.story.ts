import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';
import { change, containersOf, deployApp, reportOf } from './rotation-app.ts';

const NAME = 'keysrough';
const MACHINES = ['n1', 'n2', 'n3'];
/**
 * The machines that stay on. The worker n3 is off from the rotation phase "trust" until the phase "refresh"
 * (internal/keyset/phases.ts).
 */
const CONTROL_PLANES = ['n1', 'n2'];
const ROTATION_SECONDS = 540;
/**
 * Maximum time without the API. While one of two etcd members restarts, there is no quorum and no API server
 * responds.
 */
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

  await story.test('the rotation completes although every agent is killed in every phase', async (step) => {
    await must('keys', 'rotate', '--yes', '--no-wait', '--reason', 'story');
    const seen: string[] = [];
    const deadlineMs = Date.now() + ROTATION_SECONDS * 1000;
    for (let isDone = false; !isDone;) {
      assert.ok(Date.now() < deadlineMs, `the rotation has not ended after the phases ${seen.join(' ')}`);
      // While one of two etcd members restarts, there is no quorum and the command fails.
      const shown = await cluster.cliJson<Shown>('keys', 'show').catch(() => undefined);
      const { phase = '', isDone: isOver = false } = shown?.keys ?? {};
      isDone = isOver;
      if (phase !== '' && seen.at(-1) !== phase) {
        seen.push(phase);
        step.diagnostic(`${new Date().toISOString()} ${phase}`);
        if (phase === 'trust') await cluster.cutPower('n3');
        if (phase === 'refresh') await cluster.start('n3');
        for (const machine of CONTROL_PLANES)
          await cluster.try(machine, 'systemctl', 'kill', '--signal', 'KILL', 'bootstrapper');
      }
      await delay(700);
    }
    // The first two phases are too short to be seen in each run.
    const lasting = seen.filter((phase) => phase !== 'asked' && phase !== 'distribute');
    assert.deepEqual(lasting, ['trust', 'issue', 'refresh', 'retire', 'done']);
  });

  await story.test('a worker that was off during the rotation gets the new keys', async () => {
    await cluster.allReady(MACHINES, 180);
    await eventually(
      'its app asks the API',
      120,
      () => reportOf(first, 'n3'),
      ({ good }) => good > 3,
    );
  });

  await story.test('pods on the other machines keep running and lose the API only briefly', async (step) => {
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
        `the watch of ${name} receives the change`,
        30,
        () => reportOf(first, name),
        ({ watched }) => watched === 9,
      );
  });

  await story.test(
    'a workspace that missed the rotation has a refused kubeconfig, and the CLI renews it',
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
