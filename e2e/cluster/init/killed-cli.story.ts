import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { assertOneCluster } from './assert-one-cluster.ts';
import { CliKiller } from './cli-killer.ts';
import { KilledPhases } from './kill-matrix.ts';
import { WatchedMachine, type StoredEvent } from './watched-machine.ts';

/** A phase that ended while the CLI was restarting must be hit in another init. */
const MAX_INITS = 3;

await test('after kill -9 of the CLI in every phase and step, the same command continues the same init', async (story) => {
  await using bench = await createHarness();
  const killed = new KilledPhases('killed-cli');
  for (let round = 1; round <= MAX_INITS && (round === 1 || killed.missing().length > 0); round++) {
    await story.test(
      `init ${round} is killed in the phases that were not hit yet, and ends in one cluster`,
      async () => {
        const name = `kcli${round}`;
        const machine = await WatchedMachine.create(bench, name);
        const fire = new CliKiller(bench, machine, killed);
        const last = await fire.run();
        await assertOneCluster(bench, machine, last);
        if (round === 1) assert.deepEqual(fire.stepsLeft, []);
        assert.deepEqual(ranTwice(await machine.events()), [], 'no phase ran twice because of a CLI');
        await bench.must('mini', 'down', '--name', name);
      },
    );
  }
  story.diagnostic(killed.table());
  assert.deepEqual(killed.missing(), []);
});

/** Phases other than `preflight` that started a second time although nothing on the machine had failed. */
function ranTwice(events: readonly StoredEvent[]): readonly string[] {
  const starts = events.filter(({ event }) => event.kind === 'started' && event.phase !== 'preflight');
  return starts
    .filter(({ sequence, event }) => {
      const before = starts.findLast((each) => each.sequence < sequence && each.event.phase === event.phase);
      const between = events.filter(
        (each) => before && each.sequence > before.sequence && each.sequence < sequence,
      );
      return before !== undefined && !between.some((each) => each.event.kind === 'failed');
    })
    .map(({ event }) => event.phase);
}
