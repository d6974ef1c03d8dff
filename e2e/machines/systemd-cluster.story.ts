import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from './harness.ts';
import { runVirtualMachine } from './virtual-machine.ts';

const DIST = join(import.meta.dirname, '../../dist');

/**
 * Kubernetes on a host with systemd and only cgroup v2, where kubelet and containerd need none of the
 * workarounds for older hosts. Runs the whole `mini up` with the real agent and the bundle inside a QEMU
 * machine. It does not test that such a cluster survives a power cycle; systemd-host.story.ts tests that for
 * a machine.
 */
await test('mini up creates a working cluster on a host with systemd and cgroup v2', async () => {
  await using bench = await createHarness();
  await bench.up('any'); // Only puts the root file system into the cache.
  await bench.must('mini', 'down', '--name', 'any');
  const agent = (await readdir(DIST)).find((name) => /^cluster-agent_.*_amd64\.deb$/.test(name));
  assert.ok(agent, 'the agent package was built');
  const directory = await mkdtemp(join(tmpdir(), 'cluster-vm-'));
  try {
    const facts = await runVirtualMachine(directory, {
      script: join(import.meta.dirname, 'systemd-cluster.machine.sh'),
      agent: join(DIST, agent),
      cache: ['rootfs', 'blobs', 'bundles'],
      memoryMib: 4096,
      log: join(tmpdir(), 'cluster-systemd-cluster.log'),
    });
    const said = (name: string): string | undefined => facts.get(name);
    assert.equal(said('done'), 'yes');
    assert.deepEqual(
      [said('pid1'), said('cgroups'), said('node-cgroups')],
      ['systemd', 'cgroup2fs', 'cgroup2fs'],
    );
    assert.equal(said('up'), '0');
    assert.match(said('nodes') ?? '', /^n1 +Ready +control-plane/);
    assert.match(said('hello') ?? '', /pod=hello-.* node=n1 /);
    // Without workarounds, systemd manages the cgroups of pods, and the kubelet does not accept cgroup v1.
    assert.equal(said('cgroup-driver'), 'systemd');
    assert.match(said('pod-cgroups') ?? '', /kubepods\.slice/);
    const provisioning = JSON.parse(said('provisioning') ?? '') as Record<string, unknown>;
    assert.equal('kubelet' in provisioning || 'containerRuntime' in provisioning, false);
    assert.equal(said('not-running')?.trim(), 'none', 'every pod runs');
    assert.equal(said('down'), '0');
    assert.equal(said('changed'), '0', 'the host is as it was');
  } finally {
    await rm(directory, { recursive: true });
  }
});
