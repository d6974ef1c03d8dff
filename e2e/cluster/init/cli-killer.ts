import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { PhaseName } from '../../../initproto/phases.ts';
import type { Harness } from '../../machines/harness.ts';
import { InitRun, type OutputLine } from './init-run.ts';
import { isInside, KILL_MATRIX, type KilledPhases } from './kill-matrix.ts';
import type { WatchedMachine } from './watched-machine.ts';

/** A command that sets up the first machine, and its steps before and after the phases of the machine. */
export interface KilledCommand {
  readonly args: readonly string[];
  readonly steps: readonly string[];
}

/** `cluster init`. */
export function initCommand(machine: WatchedMachine): KilledCommand {
  const steps = [
    'init-connect',
    'init-upload',
    'init-acknowledge',
    'init-api',
    'chart-flannel',
    'init-node-ready',
  ];
  return { args: machine.init(), steps };
}

/**
 * Kills the CLI once in each phase and in each of its own steps, and starts the same command again after each
 * kill.
 */
export class CliKiller {
  readonly stepsLeft: string[];
  readonly #args: readonly string[];
  readonly #bench: Harness;
  readonly #machine: WatchedMachine;
  readonly #killed: KilledPhases;
  #cli: InitRun;

  constructor(
    bench: Harness,
    machine: WatchedMachine,
    killed: KilledPhases,
    { args, steps } = initCommand(machine),
  ) {
    this.#bench = bench;
    this.#machine = machine;
    this.#killed = killed;
    this.#args = args;
    this.stepsLeft = [...steps];
    this.#cli = new InitRun(bench, args);
  }

  /** Runs until an init ends without being killed. Returns that run. */
  async run(): Promise<InitRun> {
    let over = false;
    const watching = this.#machine.eachStart(
      async ({ event: { phase } }) => {
        if (!over && !this.#killed.has(phase)) await this.#strike(phase);
        return over ? 'stop' : 'go on';
      },
      () => over,
    );
    for (;;) {
      const cli = this.#cli;
      const step = await cli.until(
        ({ type, code = '' }) => type === 'step-started' && this.stepsLeft.includes(code),
      );
      if (step?.code !== undefined) {
        this.stepsLeft.splice(this.stepsLeft.indexOf(step.code), 1);
        await this.#again(cli);
      } else if (cli.killed) {
        // The watcher of the phases has killed this CLI and is about to start the next CLI.
        while (cli === this.#cli) await delay(5);
      } else {
        over = true;
        await watching;
        return cli;
      }
    }
  }

  /**
   * Pauses the agent in this phase and kills the CLI meanwhile, so that the CLI certainly shows this phase when
   * it dies.
   */
  async #strike(phase: PhaseName): Promise<void> {
    const machine = this.#machine;
    const follows = ({ type, code = '' }: OutputLine): boolean =>
      type === 'step-started' && code.startsWith('init-phase-');
    const calls = ({ type, code }: OutputLine): boolean => type === 'step-finished' && code === 'init-upload';
    // A CLI that has just started gets time to attach, as long as the phase lasts.
    while (phase !== 'preflight' && !this.#cli.lines.some(follows) && isInside(await machine.events(), phase))
      await delay(5);
    const pid = await machine.signalAgent('SIGSTOP');
    const cli = this.#cli;
    // A phase of a few milliseconds ends before the CLI can report it. So a kill of the CLI that started the init
    // counts as a kill in this phase.
    const isBrief = KILL_MATRIX[phase]['killed-cli'] === 'beginning' && cli.lines.some(calls);
    const follower = phase === 'preflight' || cli.lines.some(follows) || isBrief;
    const inside = isInside(await machine.events(), phase);
    const next = await this.#again(cli);
    if (follower) this.#killed.record(phase, inside);
    await next.until(({ code }) => code === 'init-connect');
    await machine.signalAgent('SIGCONT', pid);
  }

  async #again(cli: InitRun): Promise<InitRun> {
    if (cli !== this.#cli) return this.#cli; // the CLI was killed already
    await cli.kill();
    assert.notEqual(cli.outcome()?.type, 'error', cli.said());
    this.#cli = new InitRun(this.#bench, this.#args);
    return this.#cli;
  }
}
