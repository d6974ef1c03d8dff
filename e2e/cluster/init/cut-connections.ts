import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { PHASES, type PhaseName } from '../../../initproto/phases.ts';
import { hostAddress } from '../../../internal/localmachines/index.ts';
import type { Harness } from '../../machines/harness.ts';
import { assertOneCluster } from './assert-one-cluster.ts';
import { FaultyConnection } from './faulty-connection.ts';
import { InitRun, type OutputLine } from './init-run.ts';
import { WatchedMachine } from './watched-machine.ts';

/**
 * The CLI treats a connection as dead when it was silent for this long. The machine sends a heartbeat every 5
 * s.
 */
const STALL_MS = 20_000;
/** Time limit until the CLI is attached again. The CLI tries every second. */
const ATTACHED_MS = 60_000;
const LAST_PHASE: PhaseName = 'node';
/** Late phases that need etcd: while etcd is stopped they wait for minutes and do not finish. */
const WITH_ETCD = new Set<PhaseName>(['control-plane', 'settings']);

export interface CutPlan {
  /** In these phases the connection is silent for longer than the CLI waits. */
  readonly stalls: readonly PhaseName[];
  /** In this phase the machine does not respond for this long. */
  readonly deaf: { readonly phase: PhaseName; readonly ms: number };
  /** Time that the workstation is suspended, starting in the last phase. */
  readonly asleepMs: number;
}

export interface CutReport {
  readonly cuts: number;
  readonly stalls: number;
  readonly connections: number;
  readonly events: number;
}

/**
 * Runs one init over a connection that is closed and reset in every phase and silent in some. The machine
 * does not respond for a while, and the workstation is suspended for a while. The CLI runs once and is never
 * restarted.
 */
export async function initOverFaultyConnection(
  bench: Harness,
  name: string,
  plan: CutPlan,
): Promise<CutReport> {
  const machine = await WatchedMachine.create(bench, name);
  const { network } = await bench.cluster(name);
  await using cable = await FaultyConnection.open(hostAddress(network), {
    host: machine.address,
    port: 9000,
  });
  const cli = new InitRun(bench, machine.init(cable.endpoint));
  const done = { cuts: new Set<PhaseName>(), stalls: new Set<PhaseName>() };
  const anotherConnection = async (): Promise<void> => {
    for (const before = cable.made; cable.made === before && !cli.over;) await delay(5);
  };
  const watching = machine.eachStart(
    async ({ event: { phase } }) => {
      if (cli.over || done.cuts.has(phase)) return cli.over ? 'stop' : 'go on';
      done.cuts.add(phase);
      // The agent is paused, so that the phase does not end during the faults.
      const pid = await machine.signalAgent('SIGSTOP');
      cable.cut();
      await anotherConnection();
      cable.reset();
      await anotherConnection();
      if (plan.stalls.includes(phase)) {
        // The silence must hit an attached CLI, so the agent continues until the CLI is attached. etcd is
        // stopped to keep the init from ending first.
        const from = cli.lines.length;
        if (WITH_ETCD.has(phase)) await machine.signalEtcd('STOP');
        await machine.signalAgent('SIGCONT', pid);
        const late = delay(ATTACHED_MS, undefined, { ref: false });
        const attached = await Promise.race([cli.until(speaksOfNode, from), late]);
        await machine.signalAgent('SIGSTOP', pid);
        if (WITH_ETCD.has(phase)) await machine.signalEtcd('CONT');
        if (attached === undefined) await machine.signalAgent('SIGCONT', pid);
        assert.ok(attached ?? cli.over, `the CLI was not attached in ${phase}:\n${cli.said()}`);
        if (cli.over) return 'stop';
        cable.setSilent(true);
        await delay(STALL_MS + 2000);
        cable.setSilent(false);
        done.stalls.add(phase);
        // Connections that the CLI opened during the silence carry no data even later, so they are reset.
        cable.reset();
      }
      if (phase === plan.deaf.phase) await delay(plan.deaf.ms);
      await machine.signalAgent('SIGCONT', pid);
      if (phase === LAST_PHASE) {
        cli.child.kill('SIGSTOP');
        await delay(plan.asleepMs);
        cable.reset(); // A workstation loses its connections while it is suspended, so the proxy resets them.
        cli.child.kill('SIGCONT');
      }
      return done.cuts.size === PHASES.length ? 'stop' : 'go on';
    },
    () => cli.over,
  );
  const code = await cli.ended;
  await watching;
  assert.equal(code, 0, cli.said());
  assert.deepEqual([...done.cuts].toSorted(), PHASES.map(({ name: each }) => each).toSorted());
  // Excludes the last phase, because the machine may finish it before the CLI is attached.
  const before = (phases: Iterable<PhaseName>): readonly PhaseName[] =>
    [...phases].filter((phase) => phase !== LAST_PHASE).toSorted();
  assert.deepEqual(before(done.stalls), before(plan.stalls));
  const { connections, events } = cli.lines.find(({ code: each }) => each === 'init-followed')?.data as {
    connections: number;
    events: number;
  };
  // The CLI itself detects missing events, except at the end: only this check shows that it also saw the last
  // event.
  const kept = await machine.events();
  const last = kept.findLast(({ event }) => event.phase === LAST_PHASE && event.kind === 'finished');
  assert.ok(
    events >= (last?.sequence ?? Infinity),
    `${events} events seen, ${last?.sequence} is the last of the init`,
  );
  await assertOneCluster(bench, machine, cli);
  await bench.must('mini', 'down', '--name', name);
  return { cuts: 2 * done.cuts.size, stalls: done.stalls.size, connections, events };
}

/**
 * Whether the line reports progress of the machine, and not a lost connection of the CLI. The last phase may
 * have ended meanwhile.
 */
function speaksOfNode({ code = '', text = '' }: OutputLine): boolean {
  return /^init-(phase|acknowledge)/.test(code) && !/connection lost|retrying/.test(text);
}
