import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { requireApproval, StoryCluster } from '../harness/story-cluster.ts';
import { isInside, JOINING_PHASES } from '../init/kill-matrix.ts';
import { WatchedMachine } from '../init/watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';
import { WrittenFiles } from '../harness/written-files.ts';

const NAME = 'killjoin';
const LOOK_MS = 2;
/** The text for a kill that hit right after a file: the agent wrote no other file before it died. */
const ALONE = 'behind it';
/** How many times the story tries to kill the agent between a file and the next one. */
const TRIES = 3;
/** The directories into which a joining agent writes. The story kills the agent after each file there. */
const DIRECTORIES = ['enrolment', 'membership', 'credentials', 'kubernetes', 'ca'];
const MEMBERSHIP = 'membership/membership.json';
/** Files that a join must write: join request, lock, keys for the ticket request, then the content of the ticket. */
const EXPECTED = [
  'enrolment/join.json',
  'enrolment/lock.json',
  'kubernetes/kubelet-client.key',
  'kubernetes/kubelet-client.crt',
  'ca/ca.key',
  'membership/settings.json',
  'membership/roles.json',
  'credentials/node.crt',
  MEMBERSHIP,
];

interface WaitingJoin {
  readonly joinId: string;
  readonly fingerprint: string;
  readonly state: string;
}

await test('kill -9 of the joining agent at every step: it resumes as one member', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 2, workers: 0, emptyStores: true }, requireApproval);
  const machine = await WatchedMachine.joining(bench, NAME, 'n2');
  await cluster.init();
  const waiting = () =>
    eventually(
      'the machine waits for an operator',
      180,
      async () => {
        const { joins } = await cluster.cliJson<{ joins: readonly WaitingJoin[] }>('node', 'ls', '--joins');
        return joins.find(({ fingerprint }) => fingerprint === machine.fingerprint);
      },
      (join) => join?.state === 'pending',
    );
  let pid = await machine.agentAfter(undefined);
  const kill = async (): Promise<void> => {
    await machine.signalAgent('SIGKILL', pid);
    pid = await machine.agentAfter(pid);
  };

  await story.test(
    'an agent killed while it waits for approval continues the same join request',
    async () => {
      const before = await waiting();
      await kill();
      assert.equal((await waiting())?.joinId, before?.joinId);
    },
  );

  const killedAt = new Map<string, string>();
  const over = new AbortController();
  const written = new WrittenFiles(machine.state(''), DIRECTORIES);
  await written.settle();
  /** Kills the agent after each file. Until the membership file exists, each restarted agent writes most files again. */
  const atFiles = async (): Promise<void> => {
    const tries = new Map<string, number>();
    while (!over.signal.aborted && !killedAt.has(MEMBERSHIP)) {
      const fresh = await written.changed();
      const newest = fresh.at(-1);
      const aim = fresh.findLast((path) => killedAt.get(path) !== ALONE && (tries.get(path) ?? 0) < TRIES);
      if (aim === undefined || newest === undefined) {
        await delay(LOOK_MS);
        continue;
      }
      await machine.signalAgent('SIGKILL', pid);
      const meanwhile = await written.changed(); // Files that the agent still wrote before the signal reached it.
      // Must happen before systemd restarts the agent, because the new agent writes the files again.
      await written.settle();
      pid = await machine.agentAfter(pid);
      for (const path of [...fresh, ...meanwhile])
        if (!killedAt.has(path)) killedAt.set(path, `and ${newest}`);
      killedAt.set(newest, ALONE);
      tries.set(aim, (tries.get(aim) ?? 0) + 1);
    }
  };
  const atPhases = async (): Promise<void> => {
    await machine.eachStart(
      async ({ event: { phase } }) => {
        if (!killedAt.has(phase)) {
          await kill();
          killedAt.set(
            phase,
            isInside(await machine.events(), phase) ? 'inside' : 'just behind its beginning',
          );
        }
        return 'go on';
      },
      () => over.signal.aborted,
    );
  };

  await story.test(
    'the node becomes Ready although its agent is killed after each written file and in every phase',
    async (step) => {
      await cluster.cliJson(
        'node',
        'approve',
        machine.fingerprint,
        '--name',
        'n2',
        '--roles',
        'control-plane,worker',
      );
      const killing = atFiles().then(atPhases);
      try {
        await cluster.allReady(['n1', 'n2'], 600);
        // The kubelet outlives the agent, so that the node can be Ready before the restarted agent is in its last phases.
        await eventually(
          'the agent ends its last phase',
          120,
          () => machine.events(),
          (events) => events.some(({ event }) => event.kind === 'finished' && event.phase === 'node'),
        );
      } finally {
        over.abort();
        await killing;
        for (const [what, where] of killedAt) step.diagnostic(`${what.padEnd(28)} ${where}`);
      }
      assert.deepEqual(
        [...EXPECTED, ...JOINING_PHASES].filter((each) => !killedAt.has(each)),
        [],
      );
    },
  );

  await story.test('the machine is one member and one voter, and was admitted once', async () => {
    await eventually(
      'two voters',
      120,
      async () => (await cluster.etcdctl('n1', 'member', 'list')).split('\n'),
      (lines) => lines.length === 2 && lines.every((line) => /, started, .*, false$/.test(line)),
    );
    assert.equal(await cluster.members(), 2);
    await cluster.expectNoInternet(['n1', 'n2']);
    const entries = await cluster.audit();
    assert.equal(entries.filter(({ detail }) => detail.verdict === 'joined').length, 1);
    await eventually(
      'the cluster is healthy',
      90,
      () => cluster.cliJson<{ healthy: boolean }>('status'),
      ({ healthy }) => healthy,
    );
  });
});
