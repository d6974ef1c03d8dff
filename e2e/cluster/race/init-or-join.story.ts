import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { cp, readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { hostAddress } from '../../../internal/localmachines/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { InitRun } from '../init/init-run.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually, probePort } from '../harness/node-shell.ts';
import { HeadStart, seededRandom } from './head-start.ts';
import { OtherCluster } from './other-cluster.ts';
import { RacingMachine, type AgentProcess } from './racing-machine.ts';
import { HeldInit } from './held-init.ts';

const ROUNDS = Number(env['RACE_ROUNDS'] ?? 100);
const SEED = Number(env['RACE_SEED'] ?? Date.now() % 2 ** 31);
const NAME = 'race';
const INIT_PORT = 9000;
/**
 * In every 20th round the machine has a TPM. The node lock stays in a register of the TPM until a restart, so a reset
 * has to restart the machine.
 */
const TPM_EVERY = 20;
const WITHIN_S = 60;
const EXIT_PRECONDITION = 5;

/** One round after either side has won. */
interface Race {
  readonly machine: RacingMachine;
  readonly cluster: OtherCluster;
  readonly cli: InitRun;
  readonly lock: string;
  readonly context: string;
}

await test(`an init and a granted ticket in the same instant, ${ROUNDS} times: exactly one wins, the other ends cleanly, and a restarted agent continues with the winner`, async (story) => {
  const next = seededRandom(SEED);
  story.diagnostic(`RACE_SEED=${SEED}`);
  await using bench = await createHarness();
  const owner = join(bench.directory, 'owner');
  await bench.must('--workspace', owner, 'config', 'generate', '--attestation', 'tpm,machine-key');
  const ownerKey = createPrivateKey(await readFile(join(owner, 'owner-key.pem'), 'utf8'));

  const local = new StoryCluster(bench, NAME);
  await local.machines({ controlPlanes: 1, workers: 0 });
  const { network } = await bench.cluster(NAME);
  const host = hostAddress(network);
  const machine = new RacingMachine(bench, local, await (await bench.cluster(NAME)).node('n1'));
  await using cluster = await OtherCluster.start(host, ownerKey);
  await using line = await HeldInit.open(host, { host: machine.node.address, port: INIT_PORT });
  const { tpm } = await machine.provisioning();

  const contest = new HeadStart(next);
  const durations: number[] = [];
  let fingerprint: string | undefined;
  for (let round = 0; round < ROUNDS; round++) {
    const beganMs = Date.now();
    const hasTpm = round % TPM_EVERY === 0;
    const how = next() < 0.5 ? 'kill -9' : 'restart';
    line.hold();
    cluster.close();
    await machine.provision({
      ownerKeys: [cluster.ownerKey],
      joinEndpoints: [cluster.endpoint],
      tpm: hasTpm ? tpm : { kind: 'none' },
    });
    await machine.reset(hasTpm);
    fingerprint = await machine.fingerprint(fingerprint);
    const workspace = join(bench.directory, `round-${round}`);
    await cp(owner, workspace, { recursive: true });

    // Both sides are ready: the join waits for its ticket, and the proxy holds the init request of the CLI.
    await within('the machine asks to join', cluster.asked);
    const node = ['--node', line.endpoint, '--fingerprint', fingerprint];
    const cli = new InitRun(bench, ['--workspace', workspace, 'init', ...node], 'built');
    try {
      await within('the proxy holds the init request of the CLI', Promise.race([line.held, cli.ended]));
      assert.ok(!cli.over, cli.said());
      const before = await machine.agent();
      assert.equal(await machine.lock(), undefined, 'neither init nor join has locked the machine yet');

      const leadMs = contest.leadMs();
      await Promise.all([
        delay(Math.max(0, leadMs)).then(() => line.release()),
        delay(Math.max(0, -leadMs)).then(() => cluster.grant()),
      ]);
      const lock = await machine.locked();
      const { by } = JSON.parse(lock) as { readonly by: 'init' | 'join' };
      contest.won(by);
      const context = `round ${round} of RACE_SEED=${SEED}, ${by} wins, ticket ${leadMs.toFixed(1)} ms ahead`;
      const race = { machine, cluster, cli, lock, context };
      await within(`${context}: the machine stops waiting for a ticket`, cluster.left);
      await (by === 'join' ? expectJoined(race) : expectBegun(race, before));
      assert.deepEqual(await machine.agent(), before, `${context}: the agent was not restarted`);

      const goesOn = by === 'join' ? await goesOnAsMember(race) : await goesOnWithInit(race);
      await machine.restart(how, before);
      assert.notEqual((await machine.agent()).pid, before.pid, context);
      assert.equal(await machine.lock(), lock, `${context}: the node lock has not changed after ${how}`);
      await goesOn();
      assert.equal(await machine.lock(), lock, context);
    } catch (error) {
      story.diagnostic(await machine.log());
      throw error;
    } finally {
      await cli.kill();
    }
    durations.push(Date.now() - beganMs);
  }

  const median = durations.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0;
  const { init, join: joined } = contest.wins;
  story.diagnostic(
    `${ROUNDS} rounds: init won ${init}, join won ${joined}; ${(median / 1000).toFixed(1)} s a round (median), load ${loadavg()[0]?.toFixed(1)}`,
  );
  assert.ok(Math.min(init, joined) >= Math.floor(ROUNDS / 10), `no race: ${init} to ${joined}`);
});

/** Asserts that the machine joined the other cluster, has no file of the init, and refused the CLI with the cluster's ID. */
async function expectJoined({ machine, cluster, cli, lock, context }: Race): Promise<void> {
  assert.equal(await within(`${context}: the CLI ends`, cli.ended), EXIT_PRECONDITION, cli.said());
  assert.equal(cli.outcome()?.code, 'initserver-other-cluster', `${context}: ${cli.said()}`);
  assert.match(cli.outcome()?.message ?? '', new RegExp(cluster.clusterId), context);
  await eventually(
    `${context}: the machine is a member`,
    WITHIN_S,
    () => machine.memberOf(),
    (id) => id !== undefined,
  );
  assert.match(lock, new RegExp(cluster.clusterId), context);
  assert.equal(cluster.mintedForWhoAsked(), 1, context);
  assert.deepEqual(
    await machine.traces(),
    { request: false, admission: true, kubeletCredentials: true, clusterKeys: false },
    context,
  );
}

/** Asserts that the init runs, and that the machine has no admission and no credentials of the other cluster. */
async function expectBegun(
  { machine, cluster, cli, lock, context }: Race,
  agent: AgentProcess,
): Promise<void> {
  await eventually(
    `${context}: the agent logs that an init has locked the machine`,
    WITHIN_S,
    () => machine.log(agent),
    (log) => /init accepted, no longer requesting admission/.test(log),
  );
  assert.doesNotMatch(lock, new RegExp(cluster.clusterId), context);
  assert.equal(cluster.mintedForWhoAsked(), undefined, context);
  const { clusterKeys: _, ...traces } = await machine.traces(); // the init may have created the cluster's keys already
  assert.deepEqual(traces, { request: true, admission: false, kubeletCredentials: false }, context);
  assert.notEqual(await machine.memberOf(), cluster.clusterId, context);
  assert.ok(!cli.over, `${context}: ${cli.said()}`);
}

/**
 * Call this before a restart of the agent. The returned function asserts after the restart that the machine
 * is a member of the other cluster.
 */
async function goesOnAsMember({ machine, cluster, context }: Race): Promise<() => Promise<void>> {
  const asked = cluster.saidSoFar();
  cluster.resetCuratorProbe();
  return Promise.resolve(async () => {
    await within(`${context}: it connects to the curator of its cluster`, cluster.curatorProbed);
    assert.equal(await probePort(machine.node.address, INIT_PORT), 'ECONNREFUSED', context);
    assert.equal(await machine.memberOf(), cluster.clusterId, context);
    assert.equal(cluster.saidSoFar(), asked, `${context}: the machine asks for no second admission`);
  });
}

/**
 * Call this before a restart of the agent. The returned function asserts after the restart that the init
 * continues.
 */
async function goesOnWithInit({ machine, cluster, cli, context }: Race): Promise<() => Promise<void>> {
  const events = (await machine.events()).length;
  const asked = cluster.saidSoFar();
  return async () => {
    await eventually(
      `${context}: the init goes on`,
      WITHIN_S,
      async () => (await machine.events()).slice(events),
      (more) => more.some(({ event }) => event.kind === 'started'),
    );
    assert.ok(!cli.over, `${context}: ${cli.said()}`);
    assert.notEqual(await machine.memberOf(), cluster.clusterId, context);
    assert.equal(cluster.saidSoFar(), asked, `${context}: the machine does not ask to join`);
  };
}

async function within<T>(what: string, wait: Promise<T>): Promise<T> {
  const late = new AbortController();
  const timeout = delay(WITHIN_S * 1000, undefined, { signal: late.signal }).then(() => {
    throw new Error(`${what}: not within ${WITHIN_S} s`);
  });
  try {
    return await Promise.race([wait, timeout]);
  } finally {
    late.abort();
    await timeout.catch(() => undefined);
  }
}
