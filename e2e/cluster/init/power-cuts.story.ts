import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { assertOneCluster } from './assert-one-cluster.ts';
import { InitRun } from './init-run.ts';
import { KilledPhases } from './kill-matrix.ts';
import { cutPowerInEachPhase } from './strike-each-phase.ts';
import { WatchedMachine } from './watched-machine.ts';

/** The machine loses its power once in each phase of one init. */
await test('after a power cut in any phase the same command continues to Ready', async (story) => {
  await using bench = await createHarness();
  const machine = await WatchedMachine.create(bench, 'kpower');
  const killed = new KilledPhases('power-cuts');
  await cutPowerInEachPhase(bench, machine, killed);
  story.diagnostic(killed.table());
  assert.deepEqual(killed.missing(), []);
  await assertOneCluster(bench, machine, await finished(new InitRun(bench, machine.init())));
});

async function finished(cli: InitRun): Promise<InitRun> {
  await cli.ended;
  return cli;
}
