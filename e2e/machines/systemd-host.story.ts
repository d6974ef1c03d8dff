import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from './harness.ts';
import { runVirtualMachine } from './virtual-machine.ts';

/**
 * Local machines on a host with systemd and only cgroup v2. The host of the tests may be different, so the
 * story runs in a QEMU machine with the built CLI. The agent is a placeholder; systemd-cluster.story.ts runs
 * Kubernetes on such a host.
 */
await test('local machines run on a host with systemd and cgroup v2', async () => {
  await using bench = await createHarness();
  await bench.up('any'); // Only puts the root file system into the cache.
  await bench.must('mini', 'down', '--name', 'any');
  const directory = await mkdtemp(join(tmpdir(), 'cluster-vm-'));
  try {
    const facts = await runVirtualMachine(directory, {
      script: join(import.meta.dirname, 'systemd-host.machine.sh'),
      agent: bench.agent,
      cache: ['rootfs'],
      memoryMib: 2048,
      log: join(tmpdir(), 'cluster-systemd-host.log'),
    });
    const said = (name: string): string | undefined => facts.get(name);
    assert.equal(said('done'), 'yes');
    assert.deepEqual([said('pid1'), said('cgroups')], ['systemd', 'cgroup2fs']);
    // A fresh host lacks one kernel module. Preflight names it, and passes after the module is loaded.
    assert.deepEqual([said('preflight-before'), said('preflight-after')], ['3', '0']);
    for (const step of ['up-one', 'up-two', 'stop', 'start', 'cut', 'start-again'])
      assert.equal(said(step), '0', step);
    assert.deepEqual([said('state'), said('state-again')], ['running', 'running']);
    assert.match(said('controllers') ?? '', /cpuset cpu .*memory .*pids/);
    assert.equal(said('writable'), 'yes');
    assert.equal(said('scope'), 'active');
    const provisioning = JSON.parse(said('provisioning') ?? '') as Record<string, unknown>;
    assert.equal(
      'kubelet' in provisioning || 'containerRuntime' in provisioning,
      false,
      'no workarounds are needed on this host',
    );
    for (const name of ['torn', 'one', 'two']) assert.equal(said(`down-${name}`), '0', name);
    assert.equal(said('changed'), '0', 'the host is as it was');
  } finally {
    await rm(directory, { recursive: true });
  }
});
