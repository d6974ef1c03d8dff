import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitForExit, waitForOutput } from '../cluster/harness/program-output.ts';
import { buildPlaceholder, createHarness } from './harness.ts';

await test('mini up fails on an invalid agent package; mini down restores the host', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  const broken = join(bench.directory, 'cluster-agent_broken.deb');
  await writeFile(broken, 'no package');
  const failed = await bench.cli('mini', 'up', '--nodes-only', '--name', 'broken', '--agent', broken);
  assert.notEqual(failed.code, 0);
  // The command fails before it creates a machine, because it first reads the package's dependencies.
  assert.match(failed.stderr, /Preparing the root file system: stopped/);
  assert.match(failed.stderr, /cluster-agent_broken\.deb/);
  await bench.must('mini', 'down', '--name', 'broken');
  assert.deepEqual(bench.changes(before, await bench.facts()), []);
  assert.deepEqual(await bench.machines.files.list(bench.root), []);
});

await test('mini up fails on an agent package that cannot be installed; mini down restores the host', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  const broken = join(bench.directory, 'cluster-agent_broken.deb');
  await buildPlaceholder(join(bench.directory, 'broken'), broken, 'exit 1');
  const failed = await bench.cli('mini', 'up', '--nodes-only', '--name', 'broken', '--agent', broken);
  assert.notEqual(failed.code, 0);
  assert.match(failed.stderr, /Installing the agent package: stopped/);
  await bench.must('mini', 'down', '--name', 'broken');
  assert.deepEqual(bench.changes(before, await bench.facts()), []);
  assert.deepEqual(await bench.machines.files.list(bench.root), []);
});

await test('mini up fails after Kubernetes runs: the same command completes, and mini down restores the host', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  await bench.must('mini', 'up', '--nodes-only', '--name', 'failed');
  const cluster = await bench.cluster('failed');
  const config = join(cluster.paths.workspace, 'cluster.yaml');
  const good = await readFile(config, 'utf8');
  // A chart from a repository whose domain never resolves (RFC 6761 §6.4).
  const chart = { name: 'lost', chart: 'lost', repository: 'http://charts.invalid', version: '1.0.0' };
  await writeFile(config, good.replace(/^charts: .*$/m, `charts: ${JSON.stringify([chart])}`));

  const failed = await bench.cli('mini', 'up', '--name', 'failed');
  assert.equal(failed.code, 6, failed.stderr);
  assert.match(failed.stderr, /charts-source-unreachable/);
  assert.match(failed.stderr, /retryable: yes/);
  const pods = ['kubectl', 'get', 'pods', '-A', '--no-headers'] as const;
  assert.match(await bench.must('mini', 'exec', '--name', 'failed', 'n1', '--', ...pods), /kube-proxy-/);

  await writeFile(config, good);
  await bench.must('mini', 'up', '--name', 'failed');
  await writeFile(config, good.replace(/^charts: .*$/m, `charts: ${JSON.stringify([chart])}`));
  assert.equal((await bench.cli('mini', 'up', '--name', 'failed')).code, 6);
  await bench.must('mini', 'down', '--name', 'failed');
  assert.deepEqual(bench.changes(before, await bench.facts(), [cluster.network.number]), []);
  assert.deepEqual(await bench.machines.files.list(bench.root), []);
});

await test('after kill -9 of mini up during the start of Kubernetes, mini down restores the host', async () => {
  await using bench = await createHarness();
  const before = await bench.facts();
  const cli = bench.startCli('mini', 'up', '--name', 'shot');
  await waitForOutput(cli, /Starting the Kubernetes control plane/);
  const end = waitForExit(cli);
  cli.kill('SIGKILL');
  await end;
  const { number } = (await bench.cluster('shot')).network;
  await bench.must('mini', 'down', '--name', 'shot');
  assert.deepEqual(bench.changes(before, await bench.facts(), [number]), []);
  assert.deepEqual(await bench.machines.files.list(bench.root), []);
});
