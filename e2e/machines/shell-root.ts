import { chmod, copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { createInitramfs } from '../attestation/measured-boot/initramfs.ts';

const commands = new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' });

/** The files from which a machine with a shell boots. */
export interface ShellMachineFiles {
  readonly kernel: string;
  readonly initrd: string;
}

/** What is added to the root directory of a machine. */
export interface ShellRoot {
  /** A busybox that needs no libraries. */
  readonly busybox: string;
  /** The directory of the unpacked package of the kernel. */
  readonly kernel: string;
  /** The kernel's release. */
  readonly release: string;
  /** Files and directories of modules; the kernel loads them by itself. */
  readonly modules: readonly string[];
  /** What `init` does before its shell, as lines of a shell in which `$b` is busybox. */
  readonly setUp: string;
}

/** Adds busybox, modules and an `init` to the directory, and makes an initrd of it beside it. */
export async function packShellRoot(
  root: string,
  { busybox, kernel, release, modules, setUp }: ShellRoot,
): Promise<ShellMachineFiles> {
  await mkdir(join(root, 'sbin'), { recursive: true });
  await copyFile(busybox, join(root, 'sbin/busybox'));
  for (const name of modules) {
    const to = join(root, 'lib/modules', release, 'kernel', name);
    await mkdir(dirname(to), { recursive: true });
    await run('cp', '--archive', join(kernel, 'lib/modules', release, 'kernel', name), to);
  }
  await run(busybox, 'depmod', '-b', root, release);
  // The kernel runs this path (kernel.modprobe).
  await symlink('busybox', join(root, 'sbin/modprobe'));
  await writeFile(join(root, 'init'), `${BEGIN}${setUp}${SHELL}`);
  await chmod(join(root, 'init'), 0o755);
  const initrd = `${root}.initrd`;
  await writeFile(initrd, await createInitramfs(root));
  return { kernel: join(kernel, 'boot', `vmlinuz-${release}`), initrd };
}

const BEGIN = `#!/sbin/busybox sh
b=/sbin/busybox
export PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin
for each in "proc /proc" "sysfs /sys" "devtmpfs /dev" "tmpfs /run" "tmpfs /tmp"; do
  $b mkdir -p "\${each#* }"
  $b mount -t \${each% *} none "\${each#* }"
done
$b mkdir -p /usr/local/bin
$b --install -s /usr/local/bin
`;

/** A shell at the second serial port: it runs each command that arrives there. */
const SHELL = `# Open all the time: what arrives at a closed port is lost.
exec 3<> /dev/ttyS1
$b stty raw -echo <&3
echo '::started' >&3
# Not to a terminal, so that the shell is not interactive.
$b sh <&3 2>&1 3>&- | $b cat >&3
`;

async function run(...argv: [string, ...string[]]): Promise<void> {
  await commands.run({ argv, signal: new AbortController().signal });
}
