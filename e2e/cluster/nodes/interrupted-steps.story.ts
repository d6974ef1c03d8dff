import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';
import { editJoinSettings, requireApproval, StoryCluster } from '../harness/story-cluster.ts';
import { keepMachinesOn } from '../tutorial/keep-machines-on.ts';
import { interrupt, INTERRUPTIONS, observe, planInterruptions, type Interruptible } from './interruption.ts';

const NAME = 'steps';
const MACHINES = ['n1', 'n2', 'n3', 'n4', 'n5'];
const FORCED = ['--yes', '--force', '--delete-emptydir-data'] as const;
/** A machine that was reset restarts, asks to join, and becomes Ready. */
const JOIN_SECONDS = 240;

/** One line for each node: its readiness, whether it is cordoned, its taints and the labels that an operator sets. */
const NODES = `jsonpath={range .items[*]}{.metadata.name} {.spec.unschedulable} {.spec.taints[*].key} {.metadata.labels.zone} {.metadata.labels.rack}{"\\n"}{end}`;

/** Lists a machine that does not exist. */
const listSpare = editJoinSettings(({ join: joining }) => {
  joining.policy = 'approve';
  joining.inventory = [{ identity: `tpm-ek:${'0'.repeat(64)}`, name: 'spare', roles: ['worker'] }];
});

/** The words of a command, without its arguments and flags. */
function wordsOf([group = '', ...rest]: readonly string[]): string {
  return [group, ...rest.slice(0, group === 'backup' ? 2 : 1)].join(' ');
}

interface NodeLine {
  readonly name: string;
  readonly roles: readonly string[];
}
interface JoinLine {
  readonly joinId: string;
  readonly hostname: string;
  readonly state: string;
}

await test('every command that changes nodes, interrupted at each of its steps, reaches the same state when it is run again', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '2');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const first = new NodeShell(bench, NAME);
  const words = (args: readonly string[]) => ['--workspace', workspace, ...args];
  const must = (...args: readonly string[]) => bench.must(...words(args));
  await cluster.edit(requireApproval);
  await must('config', 'apply', '--yes');
  await cluster.allReady(MACHINES, 120);
  await using _on = keepMachinesOn(cluster, ['n4', 'n5']);
  const ann = join(bench.directory, 'ann');
  await mkdir(ann);
  await bench.must('--workspace', ann, 'operator', 'key', 'ann');
  let rotation = 0;

  /** What the commands of this story change. */
  const state = async () => {
    const { nodes } = await cluster.cliJson<{ nodes: readonly NodeLine[] }>('node', 'ls');
    const { operators } = await cluster.cliJson<{ operators: readonly { name: string; role: string }[] }>(
      'operator',
      'ls',
    );
    const { schedule } = await cluster.cliJson<{
      readonly schedule: { readonly everyMinutes: number; readonly keep: number } | null;
    }>('backup', 'schedule', 'show');
    const { configuration } = await cluster.cliJson<{ readonly configuration: unknown }>('config', 'show');
    return {
      nodes: nodes.map(({ name, roles }) => `${name} ${[...roles].sort().join()}`).sort(),
      kubernetes: (await first.kubectl('get', 'nodes', '-o', NODES)).split('\n').sort(),
      etcd: await cluster.etcdMembers(),
      operators: operators.map(({ name, role }) => `${name} ${role}`).sort(),
      backups: schedule && `every ${schedule.everyMinutes} min, ${schedule.keep} kept`,
      configuration,
    };
  };
  type State = Awaited<ReturnType<typeof state>>;
  /** Labels and taints reach Kubernetes within seconds. */
  const reaches = (what: string, wanted: State): Promise<State> =>
    eventually(what, 90, state, (now) => JSON.stringify(now) === JSON.stringify(wanted));

  /**
   * Interrupts a command at all of its points, one after the other, then runs it to its end.
   * @param prepare brings the cluster back to the state before the command
   */
  const everyPoint = async (
    command: Interruptible,
    options: {
      readonly wanted: State;
      readonly say: (line: string) => void;
      readonly prepare: () => Promise<unknown>;
      /** The number of interruptions in a row, before the command is run to its end. */
      readonly chained?: number;
    },
  ): Promise<void> => {
    const { wanted, say, prepare, chained = 2 } = options;
    const plan = planInterruptions(command.points, rotation++);
    for (let at = 0; at < plan.length; at += chained) {
      await prepare();
      for (const each of plan.slice(at, at + chained)) {
        say(
          `${command.args.slice(2, 5).join(' ')}: ${await interrupt(bench, { args: command.args, ...each })}`,
        );
      }
      await bench.must(...command.args);
      await reaches(`${command.args.slice(2).join(' ')}, point ${at}`, wanted);
    }
  };

  /** Both directions of a change: while one is prepared, the other one is run to its end. */
  const thereAndBack = async (
    say: (line: string) => void,
    there: readonly string[],
    back: readonly string[],
    chained = 2,
  ): Promise<void> => {
    const before = await state();
    const forth = await observe(bench, words(there));
    const settled = await eventually(
      `${there.join(' ')} settles`,
      60,
      state,
      (now) => JSON.stringify(now) !== JSON.stringify(before),
    );
    const returning = await observe(bench, words(back));
    await reaches(`${back.join(' ')} undoes it`, before);
    await everyPoint(forth, {
      ...{ wanted: settled, say, chained },
      prepare: async () => {
        await must(...back);
        await reaches('the state before', before);
      },
    });
    await everyPoint(returning, {
      ...{ wanted: before, say, chained },
      prepare: async () => {
        await must(...there);
        await reaches('the changed state', settled);
      },
    });
  };

  /** A command that has no opposite: it is interrupted in each way, and changes nothing of the state when it is run again. */
  const repeated = async (
    command: readonly string[],
    wanted: State,
    say: (line: string) => void,
  ): Promise<void> => {
    const args = words(command);
    const points = [0.5, 0.7, 0.85, 0.95].map((part) => ({ kind: 'time', afterMs: part * 2000 }) as const);
    await everyPoint(
      { args, points },
      { wanted, say, prepare: async () => {}, chained: INTERRUPTIONS.length },
    );
  };

  const request = join(ann, 'ann.csr');
  for (const [there, back] of [
    [
      ['node', 'label', 'n4', 'zone=a', 'rack=1'],
      ['node', 'label', 'n4', 'zone-', 'rack-'],
    ],
    [
      ['node', 'taint', 'n4', 'dedicated=x:PreferNoSchedule'],
      ['node', 'taint', 'n4', 'dedicated-'],
    ],
    [
      ['node', 'cordon', 'n4'],
      ['node', 'uncordon', 'n4'],
    ],
    [
      ['node', 'drain', 'n4', ...FORCED],
      ['node', 'uncordon', 'n4'],
    ],
    [
      ['operator', 'add', 'ann', '--role', 'viewer', '--request', request, '--out', join(ann, 'ann.grant')],
      ['operator', 'remove', 'ann', '--yes'],
    ],
    [
      ['backup', 'schedule', 'set', '--every', '24h', '--keep', '2'],
      ['backup', 'schedule', 'stop', '--yes'],
    ],
  ] as const)
    await story.test(`${wordsOf(there)} and ${wordsOf(back)}`, (step) =>
      thereAndBack((line) => step.diagnostic(line), there, back),
    );

  await story.test('node set-role of a worker to a control plane and back', (step) =>
    thereAndBack(
      (line) => step.diagnostic(line),
      ['node', 'set-role', 'n4', '--control-plane', '--worker', '--yes'],
      ['node', 'set-role', 'n4', '--worker', ...FORCED],
      INTERRUPTIONS.length,
    ),
  );

  await story.test('config apply', async (step) => {
    const args = words(['config', 'apply', '--yes']);
    const openAgain = async (): Promise<void> => {
      await cluster.edit(requireApproval);
      await bench.must(...args);
      await cluster.edit(listSpare);
    };
    await openAgain();
    const apply = await observe(bench, args);
    const wanted = await state();
    await everyPoint(apply, { wanted, say: (line) => step.diagnostic(line), prepare: openAgain });
  });

  await story.test('sign', async (step) => {
    await repeated(['sign', '--yes'], await state(), (line) => step.diagnostic(line));
  });

  await story.test('node reboot', async (step) => {
    const wanted = await state();
    const reboot = await observe(bench, words(['node', 'reboot', 'n4', ...FORCED]));
    await reaches('the state after a restart', wanted);
    await everyPoint(reboot, {
      ...{ wanted, say: (line: string) => step.diagnostic(line), chained: INTERRUPTIONS.length },
      prepare: async () => {},
    });
    await cluster.allReady(MACHINES, JOIN_SECONDS);
  });

  await story.test('node shutdown', async (step) => {
    const shutdown = await observe(bench, words(['node', 'shutdown', 'n5', ...FORCED]));
    // The machine is started again, and its node stays cordoned.
    const wanted = await eventually('n5 is only cordoned', JOIN_SECONDS, state, ({ kubernetes }) =>
      kubernetes.some((line) => /^n5 true node\.kubernetes\.io\/unschedulable *$/.test(line)),
    );
    await everyPoint(shutdown, {
      ...{ wanted, say: (line: string) => step.diagnostic(line), chained: INTERRUPTIONS.length },
      prepare: async () => {},
    });
    await must('node', 'uncordon', 'n5');
    await cluster.allReady(MACHINES, JOIN_SECONDS);
  });

  /** The request of the machine n5 to join, as soon as the cluster has it. */
  const pending = async (): Promise<string> => {
    const { joins } = await eventually(
      'n5 asks to join',
      JOIN_SECONDS,
      () => cluster.cliJson<{ joins: readonly JoinLine[] }>('node', 'ls', '--joins'),
      (all) => all.joins.some(({ hostname, state: now }) => hostname === 'n5' && now === 'pending'),
    );
    return joins.find(({ hostname, state: now }) => hostname === 'n5' && now === 'pending')?.joinId ?? '';
  };
  const approvalWords = async () => [
    ...['node', 'approve', await pending(), '--name', 'n5'],
    ...['--label', 'rack=r7', '--taint', 'spare:PreferNoSchedule'],
  ];
  const approval = async () => words(await approvalWords());
  const returned = () => cluster.allReady(MACHINES, JOIN_SECONDS);

  await story.test('node reset and node approve', async (step) => {
    const say = (line: string): void => step.diagnostic(line);
    const reset = await observe(bench, words(['node', 'reset', 'n5', ...FORCED]));
    const gone = await state();
    await bench.must(...(await approval()));
    await returned();
    const back = await eventually('the label and the taint of the approval', 60, state, ({ kubernetes }) =>
      kubernetes.some((line) => /^n5 .*spare.* r7/.test(line)),
    );
    await everyPoint(reset, { wanted: gone, say, prepare: async () => {}, chained: INTERRUPTIONS.length });
    // The machine has a new key and a new request after each reset; so each point is one command of its own.
    await repeated(await approvalWords(), back, say);
    await returned();
  });

  await story.test('node remove', async (step) => {
    const remove = await observe(bench, words(['node', 'remove', 'n5', ...FORCED]));
    const gone = await state();
    await repeated(['node', 'readmit', 'n5'], gone, (line) => step.diagnostic(line));
    await cluster.sh(
      'n5',
      'install -D /dev/null /var/lib/cluster/reset/order.json && systemctl restart --no-block bootstrapper',
    );
    await bench.must(...(await approval()));
    await returned();
    await everyPoint(remove, {
      ...{ wanted: gone, say: (line: string) => step.diagnostic(line), chained: INTERRUPTIONS.length },
      prepare: async () => {},
    });
  });

  await story.test(
    'keys rotate --no-wait, interrupted in each way, makes one new generation',
    async (step) => {
      const generation = async (): Promise<number> =>
        (await cluster.cliJson<{ keys: { generation: number } }>('keys', 'show')).keys.generation;
      const before = await generation();
      const args = words(['keys', 'rotate', '--no-wait', '--yes']);
      for (const by of INTERRUPTIONS)
        step.diagnostic(
          await interrupt(bench, { args, point: { kind: 'step', code: 'keys-sign', occurrence: 0 }, by }),
        );
      await bench.must(...args);
      await eventually('one new generation', 300, generation, (now) => now === before + 1);
    },
  );
});
