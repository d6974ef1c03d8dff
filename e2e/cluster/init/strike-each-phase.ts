import assert from 'node:assert/strict';
import type { PhaseName } from '../../../initproto/phases.ts';
import type { Harness } from '../../machines/harness.ts';
import { InitRun } from './init-run.ts';
import { isInside, type KilledPhases } from './kill-matrix.ts';
import type { WatchedMachine } from './watched-machine.ts';

/**
 * Runs a command that sets up the first machine, cuts the power of the machine once in each phase, and runs the same command again after
 * each power cut. Returns when every phase was hit or the command has ended; the machine is on.
 */
export async function cutPowerInEachPhase(
  bench: Harness,
  machine: WatchedMachine,
  killed: KilledPhases,
  args: readonly string[] = machine.init(),
): Promise<void> {
  let isOff = false;
  while (killed.missing().length > 0) {
    const before = killed.missing();
    const caught = Promise.withResolvers<PhaseName>();
    let pid: number | undefined;
    let isOver = (): boolean => false;
    // The watcher must start before the machine, because its agent resumes the work without a CLI.
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
    if (isOff) await bench.must('mini', 'start', '--name', machine.name, machine.machineName);
    isOff = false;
    await running;
    const cli = new InitRun(bench, args);
    isOver = () => cli.over;
    const phase = await Promise.race([caught.promise, cli.ended.then(() => undefined)]);
    if (phase === undefined) break; // No more phases start, because the command has ended. The caller checks its result.
    await watching;
    const inside = isInside(await machine.events(), phase);
    await bench.must('mini', 'stop', '--power-cut', '--name', machine.name, machine.machineName);
    isOff = true;
    await cli.kill();
    killed.record(phase, inside);
    assert.ok(
      killed.missing().length < before.length || !inside,
      `the power cut did not hit phase ${phase}: ${cli.said()}`,
    );
  }
  if (isOff) await bench.must('mini', 'start', '--name', machine.name, machine.machineName);
}

/** Kills the agent once in each phase of the command that runs, until every phase was hit or the command has ended. */
export async function killAgentInEachPhase(
  machine: WatchedMachine,
  killed: KilledPhases,
  { cli, pid: first }: { readonly cli: InitRun; readonly pid: number },
): Promise<void> {
  let pid = first;
  await machine.eachStart(
    async ({ event: { phase } }) => {
      if (!killed.has(phase)) {
        await machine.signalAgent('SIGKILL', pid);
        killed.record(phase, isInside(await machine.events(), phase));
        pid = await machine.agentAfter(pid);
      }
      return killed.missing().length === 0 ? 'stop' : 'go on';
    },
    () => cli.over,
  );
}
