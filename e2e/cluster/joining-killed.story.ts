import assert from 'node:assert/strict';
import { access } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import type { PhaseName } from '../../initproto/phases.ts';
import { createBench } from '../machines/bench.ts';
import { JoiningCluster } from './joining.ts';
import { isInside } from './kill-matrix.ts';
import { MachineUnderFire } from './machine-under-fire.ts';
import { eventually, NodeShell } from './node-shell.ts';

const NAME = 'killjoin';
const LOOK_MS = 2;
/** What a machine writes on its way in, in this order: admission, lock, then what the ticket brought. */
const STEPS = [
  'enrolment/join.json',
  'enrolment/lock.json',
  'membership/settings.json',
  'membership/roles.json',
  'credentials/node.crt',
  'membership/membership.json',
] as const;
/** Of the registry, those that a control plane that joins goes through. */
const PHASES = [
  ...(['components', 'consensus', 'pki', 'images', 'curator'] as const),
  ...(['control-plane', 'settings', 'node'] as const),
] satisfies readonly PhaseName[];

interface WaitingJoin {
  readonly joinId: string;
  readonly fingerprint: string;
  readonly state: string;
}

await test('kill -9 of the joining agent at every step: it goes on by itself, as one member', async (story) => {
  await using bench = await createBench();
  const cluster = new JoiningCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 2, workers: 0 }, (yaml) =>
    yaml.replace(/^join:\n(?: .*\n)*/m, 'join:\n  policy: approve\n'),
  );
  const machine = await MachineUnderFire.joining(bench, NAME, 'n2');
  await cluster.init();
  const first = new NodeShell(bench, NAME);
  const waiting = () =>
    eventually(
      'the machine waits for an operator',
      180,
      async () => {
        const { joins } = await cluster.ask<{ joins: readonly WaitingJoin[] }>('node', 'ls', '--joins');
        return joins.find(({ fingerprint }) => fingerprint === machine.fingerprint);
      },
      (join) => join?.state === 'pending',
    );
  let pid = await machine.agentAfter(undefined);
  const kill = async (): Promise<void> => {
    await machine.signalAgent('SIGKILL', pid);
    pid = await machine.agentAfter(pid);
  };

  await story.test('while it waits to be let in: the same request goes on', async () => {
    const before = await waiting();
    await kill();
    assert.equal((await waiting())?.joinId, before?.joinId);
  });

  const struck = new Map<string, string>();
  const over = new AbortController();
  const atSteps = async (): Promise<void> => {
    for (const step of STEPS) {
      while (!(await isThere(machine.state(step)))) {
        if (over.signal.aborted) return;
        await delay(LOOK_MS);
      }
      await kill();
      struck.set(
        step,
        (await isThere(machine.state(STEPS.at(-1) ?? ''))) ? 'behind the membership' : 'before it',
      );
    }
  };
  const atPhases = async (): Promise<void> => {
    await machine.eachStart(
      async ({ event: { phase } }) => {
        if (!struck.has(phase)) {
          await kill();
          struck.set(phase, isInside(await machine.events(), phase) ? 'inside' : 'just behind its beginning');
        }
        return 'go on';
      },
      () => over.signal.aborted,
    );
  };

  await story.test(
    'as each thing reaches its disk and in every phase: it comes to be Ready',
    async (step) => {
      await cluster.ask(
        'node',
        'approve',
        machine.fingerprint,
        '--name',
        'n2',
        '--roles',
        'control-plane,worker',
      );
      const killing = atSteps().then(atPhases);
      try {
        await cluster.allReady(['n1', 'n2'], 600);
      } finally {
        over.abort();
        await killing;
        for (const [what, where] of struck) step.diagnostic(`${what.padEnd(28)} ${where}`);
      }
      assert.deepEqual(
        [...STEPS, ...PHASES].filter((each) => !struck.has(each)),
        [],
      );
    },
  );

  await story.test('one member, one voter more, one admission', async () => {
    await eventually(
      'two voters',
      120,
      async () => (await first.etcdctl('root', 'member', 'list')).stdout.trim().split('\n'),
      (lines) => lines.length === 2 && lines.every((line) => /, started, .*, false$/.test(line)),
    );
    assert.equal(await cluster.members(), 2);
    const { entries } = await cluster.ask<{ entries: { detail: { verdict?: string } }[] }>('audit', 'ls');
    assert.equal(entries.filter(({ detail }) => detail.verdict === 'joined').length, 1);
    await eventually(
      'the cluster is healthy',
      90,
      () => cluster.ask<{ healthy: boolean }>('status'),
      ({ healthy }) => healthy,
    );
  });
});

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
