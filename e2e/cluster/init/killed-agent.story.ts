import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { assertOneCluster } from './assert-one-cluster.ts';
import { InitRun } from './init-run.ts';
import { KilledPhases } from './kill-matrix.ts';
import { killAgentInEachPhase } from './strike-each-phase.ts';
import { WatchedMachine } from './watched-machine.ts';

/**
 * The agent is killed once in each phase of one init, and only systemd restarts it. A second CLI is refused
 * with an error that names the process that holds the workspace.
 */
await test('after kill -9 of the agent in every phase, systemd restarts it and the init continues to Ready', async (story) => {
  await using bench = await createHarness();
  const machine = await WatchedMachine.create(bench, 'kagent');
  const killed = new KilledPhases('killed-agent');
  const pid = await machine.agentAfter(undefined);
  const cli = new InitRun(bench, machine.init());
  await cli.until(({ code }) => code === 'init-connect');
  const second = new InitRun(bench, machine.init());
  const watching = killAgentInEachPhase(machine, killed, { cli, pid });
  assert.equal(await second.ended, 9, second.said());
  const refused = second.outcome();
  assert.equal(refused?.code, 'workspace-locked');
  assert.match(refused.message ?? '', /`cluster init` \(.*process \d+\) holds .* since 20\d\d-/);
  assert.equal(await cli.ended, 0, cli.said());
  await watching;
  story.diagnostic(killed.table());
  assert.deepEqual(killed.missing(), []);
  await assertOneCluster(bench, machine, cli);
  const attached = cli.lines.find(({ code }) => code === 'init-followed');
  assert.ok(attached, 'the CLI has attached again');
});
