import { describe, expect, test } from '@jest/globals';
import type { Command, CommandResult } from '../../../internal/exec/index.ts';
import { createMemoryLogger, FakeClock, FakeCommands, MemoryFiles } from '../../../internal/testing/index.ts';
import { never } from '../fake-machine.ts';
import { StepCheckpoints } from '../step-checkpoints.ts';
import { reconcileControlPlaneTaint, removeOwnTaintAndLabels } from './control-plane-taint.ts';

const TAINT = 'node-role.kubernetes.io/control-plane:NoSchedule';

/** The point at which this run of the agent is killed: before or after its n-th step. */
interface Kill {
  readonly step: number;
  readonly when: 'before' | 'after';
}

/** A file system that runs each write inside `step`, so that a test can act before or after it. */
class SteppedFiles extends MemoryFiles {
  step: (work: () => Promise<void>) => Promise<void> = (work) => work();

  override writeAtomic(...args: Parameters<MemoryFiles['writeAtomic']>): Promise<void> {
    return this.step(() => super.writeAtomic(...args));
  }
}

/** A node whose API stores its taint, and whose agent can be killed at each of its steps. */
class TaintedNode extends FakeCommands {
  isTainted = false;
  steps = 0;
  kill: Kill | undefined;
  readonly checkpoints: StepCheckpoints;

  constructor(files: SteppedFiles) {
    super((argv) => this.#answer(argv));
    files.step = (work) => this.#step(work);
    this.checkpoints = new StepCheckpoints(files);
  }

  static async create(): Promise<TaintedNode> {
    const files = new SteppedFiles();
    await files.makeDirectory('/var/lib/cluster/kubernetes');
    return new TaintedNode(files);
  }

  override run(command: Command): Promise<CommandResult> {
    return this.#step(() => super.run(command));
  }

  follow(runsWorkloads: boolean): Promise<void> {
    return reconcileControlPlaneTaint({ commands: this, checkpoints: this.checkpoints }, pods(runsWorkloads));
  }

  async #step<T>(work: () => Promise<T>): Promise<T> {
    const step = ++this.steps;
    if (this.kill?.step === step && this.kill.when === 'before') throw new Error('killed');
    const result = await work();
    if (this.kill?.step === step) throw new Error('killed');
    return result;
  }

  #answer(argv: readonly string[]) {
    if (argv.includes(`${TAINT}-`)) {
      if (!this.isTainted) return { exitCode: 1, output: `error: taint "${TAINT}" not found` };
      this.isTainted = false;
    }
    if (argv.includes(TAINT)) this.isTainted = true;
    return undefined;
  }
}

const pods = (runsWorkloads: boolean) => ({ nodeName: 'n2', runsWorkloads, signal: never });

describe('reconcileControlPlaneTaint()', () => {
  test('adds the taint to a control plane that is not a worker, and removes it when the node becomes a worker', async () => {
    const node = await TaintedNode.create();
    const seen: boolean[] = [];
    for (const runsWorkloads of [false, true, false, true]) {
      await node.follow(runsWorkloads);
      seen.push(node.isTainted);
    }
    expect(seen).toEqual([true, false, true, false]);
  });

  test('does not call the API if nothing has changed', async () => {
    const node = await TaintedNode.create();
    await node.follow(true);
    expect(node.runs).toEqual([]);
    await node.follow(false);
    node.isTainted = false; // an operator removes the taint
    await node.follow(false);
    expect([node.runs.length, node.isTainted]).toEqual([1, false]);
  });

  test('sets the right taint after a crash at any point and after any change of roles', async () => {
    for (const before of [false, true])
      for (const then of [false, true])
        for (const when of ['before', 'after'] as const)
          for (let step = 1; ; step++) {
            const node = await TaintedNode.create();
            await node.follow(!before);
            Object.assign(node, { steps: 0, kill: { step, when } });
            const isKilled = await node.follow(before).then(
              () => false,
              () => true,
            );
            node.kill = undefined;
            await node.follow(then);
            expect({ before, then, when, step, isTainted: node.isTainted }).toMatchObject({
              isTainted: !then,
            });
            if (!isKilled) break;
          }
  });
});

describe('removeOwnTaintAndLabels()', () => {
  /** Runs the removal against an API whose first calls fail with these errors. */
  async function unmark(failures: readonly string[]) {
    const left = [...failures];
    const commands = new FakeCommands(() => {
      const output = left.shift();
      return output === undefined ? undefined : { exitCode: 1, output };
    });
    const { checkpoints } = await TaintedNode.create();
    const { log, records } = createMemoryLogger();
    const clock = new FakeClock();
    const done = removeOwnTaintAndLabels({ commands, checkpoints, clock, log }, pods(true));
    for (let second = 0; second < 60; second++) await clock.advance(1_000);
    await done;
    return { verbs: commands.runs.map((argv) => argv[3]), lines: records.map(({ message }) => message) };
  }

  test('removes the taint and the labels, and retries while the API does not answer', async () => {
    expect(
      await unmark([
        'The connection to the server was refused',
        'Error from server (Forbidden): nodes "n2" is forbidden: User "kubernetes-admin" cannot get',
      ]),
    ).toEqual({
      verbs: ['taint', 'taint', 'taint', 'label'],
      lines: [],
    });
  });

  test('tries only once if the node is deleted, and gives up if the API does not answer', async () => {
    const gone = await unmark(['Error from server (NotFound): nodes "n2" not found']);
    expect(gone).toEqual({ verbs: ['taint'], lines: ['removing the control-plane taint and labels failed'] });
    const silent = await unmark(Array.from({ length: 100 }, () => 'connection refused'));
    expect(silent.lines).toEqual(['removing the control-plane taint and labels failed']);
    expect(silent.verbs.length).toBeLessThan(40);
  });
});
