import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PhaseName } from '../../../initproto/phases.ts';
import { createHarness } from '../../machines/harness.ts';
import { assertOneCluster } from './assert-one-cluster.ts';
import { InitRun } from './init-run.ts';
import { isInside, KilledPhases } from './kill-matrix.ts';
import { WatchedMachine } from './watched-machine.ts';

/** The machine loses its power once in each phase of one init. */
await test('after a power cut in any phase the same command continues to Ready', async (story) => {
  await using bench = await createHarness();
  const machine = await WatchedMachine.create(bench, 'kpower');
  const killed = new KilledPhases('power-cuts');
  let isOff = false;
  while (killed.missing().length > 0) {
    const before = killed.missing();
    const caught = Promise.withResolvers<PhaseName>();
    let pid: number | undefined;
    let isOver = (): boolean => false;
    // The watcher must start before the machine, because its agent resumes the init without a CLI.
    const watching = machine.eachStart(
      async ({ event: { phase } }) => {
        if (killed.has(phase)) return isOver() ? 'stop' : 'go on';
        // The agent is paused, so that the phase does not end before the power is cut.
        await machine.signalAgent('SIGSTOP', pid);
        caught.resolve(phase);
        return 'stop';
      },
      () => isOver(),
    );
    const running = machine.agentAfter(undefined).then((found) => (pid = found));
    if (isOff) await bench.must('mini', 'start', '--name', machine.name, 'n1');
    isOff = false;
    await running;
    const cli = new InitRun(bench, machine.init());
    isOver = () => cli.over;
    const phase = await Promise.race([caught.promise, cli.ended.then(() => undefined)]);
    if (phase === undefined) break; // No more phases start, because the init has ended. Its result is checked below.
    await watching;
    const inside = isInside(await machine.events(), phase);
    await bench.must('mini', 'stop', '--power-cut', '--name', machine.name, 'n1');
    isOff = true;
    await cli.kill();
    killed.record(phase, inside);
    assert.ok(
      killed.missing().length < before.length || !inside,
      `the power cut did not hit phase ${phase}: ${cli.said()}`,
    );
  }
  if (isOff) await bench.must('mini', 'start', '--name', machine.name, 'n1');
  story.diagnostic(killed.table());
  assert.deepEqual(killed.missing(), []);
  await assertOneCluster(bench, machine, await finished(new InitRun(bench, machine.init())));
});

async function finished(cli: InitRun): Promise<InitRun> {
  await cli.ended;
  return cli;
}
