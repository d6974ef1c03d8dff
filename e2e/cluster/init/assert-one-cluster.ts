import assert from 'node:assert/strict';
import { PHASES } from '../../../initproto/phases.ts';
import type { Harness } from '../../machines/harness.ts';
import type { InitRun } from './init-run.ts';
import type { WatchedMachine } from './watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';

/**
 * Asserts that there is exactly one Ready cluster, that nothing was created twice, and that the same command
 * changes nothing.
 */
export async function assertOneCluster(
  bench: Harness,
  machine: WatchedMachine,
  last: InitRun,
): Promise<void> {
  assert.equal(await last.ended, 0, last.said());
  const { clusterId } = last.outcome()?.data as { clusterId: string };
  assert.equal(clusterId, await machine.clusterId());
  await eventually(
    'the node is Ready',
    90,
    () => machine.node.kubectl('get', 'nodes', '--no-headers'),
    (line) => /^n1 +Ready /.test(line),
  );
  const events = await machine.events();
  assert.deepEqual(
    events.map(({ sequence }) => sequence),
    events.map((_, index) => index + 1),
    'the events have no gaps',
  );
  for (const { name } of PHASES)
    assert.ok(
      events.some(({ event }) => event.phase === name && event.kind === 'finished'),
      `phase ${name} has never finished`,
    );
  const releases = await machine.node.run(
    'sh',
    '-c',
    'kubectl get secrets -A -l owner=helm -o jsonpath="{range .items[*]}{.metadata.name}{\\"\\\\n\\"}{end}"',
  );
  assert.match(releases, /^sh\.helm\.release\.v1\.\S+\.v1$/, 'the network chart is installed once');
  const clusters = await machine.node.etcdctl('root', 'get', '--prefix', '/cluster/', '--keys-only');
  const nodes = clusters.stdout.split('\n').filter((key) => /^\/cluster\/nodes\/[^/]+\/record$/.test(key));
  assert.equal(nodes.length, 1, `one node is recorded: ${clusters.stdout}`);
  const outlived =
    'journalctl --unit bootstrapper.service --no-pager | grep -E "remains running|left-over process" || true';
  assert.equal(await machine.sh(outlived), '', 'no process of an earlier run of the agent still runs');
  assert.match(await bench.must(...machine.init()), /nothing was changed/);
}
