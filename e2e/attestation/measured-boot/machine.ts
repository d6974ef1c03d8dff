import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { findFreePort } from '../../../internal/testing/index.ts';
import { createInitramfs } from './initramfs.ts';
import { kernelPackage, unpackPackages } from './packages.ts';
import type { BootFiles } from './reference-values.ts';

const PATH = '/usr/sbin:/usr/bin:/sbin:/bin';
const commands = new ExecaRunner({ path: PATH });
const MEMORY_MIB = 1024;
const VM = { network: '198.18.200.0/24', address: '198.18.200.15', initPort: 9000 };
/** Kernel modules in the order of their dependencies. */
const NETWORK_MODULES = [
  'drivers/virtio/virtio_ring',
  'drivers/virtio/virtio',
  'drivers/virtio/virtio_pci_modern_dev',
  'drivers/virtio/virtio_pci_legacy_dev',
  'drivers/virtio/virtio_pci',
  'net/core/failover',
  'drivers/net/net_failover',
  'drivers/net/virtio_net',
];

/** The files that a machine boots from. The measurements of the machine depend on these files only. */
export interface BootDirectory {
  readonly kernel: string;
  readonly firmware: string;
  readonly firmwareVariables: string;
  /**
   * The directory that becomes the initrd: the agent's package, its provisioning, and the files that Node and
   * the kernel need.
   */
  readonly root: string;
}

/** Prepares the kernel and firmware of Debian, and a root directory with the agent from its package. */
export async function createBootDirectory(
  directory: string,
  options: { readonly agent: string; readonly provisioning: object },
): Promise<BootDirectory> {
  const [distribution, root] = [join(directory, 'distribution'), join(directory, 'initrd')];
  const kernelName = await kernelPackage('linux-image-cloud-amd64');
  await unpackPackages(['ovmf', kernelName], distribution);
  await unpackPackages(['busybox-static', 'libc6', 'libstdc++6', 'libgcc-s1'], root);
  await run('dpkg-deb', '-x', options.agent, root);
  await run('rm', '-rf', join(root, 'usr/share'));
  const release = kernelName.slice('linux-image-'.length);
  const modules = join(distribution, 'lib/modules', release, 'kernel');
  for (const name of ['modules', 'proc', 'sys', 'dev', 'run', 'tmp', 'etc/cluster'])
    await mkdir(join(root, name), { recursive: true });
  for (const name of NETWORK_MODULES)
    await copyFile(join(modules, `${name}.ko`), join(root, 'modules', moduleFile(name)));
  await writeFile(join(root, 'etc/cluster/provisioning.json'), JSON.stringify(options.provisioning), {
    mode: 0o600,
  });
  await writeFile(join(root, 'init'), initScript());
  await chmod(join(root, 'init'), 0o755);
  const firmware = join(distribution, 'usr/share/OVMF');
  return {
    kernel: join(distribution, 'boot', `vmlinuz-${release}`),
    firmware: join(firmware, 'OVMF_CODE_4M.fd'),
    firmwareVariables: join(firmware, 'OVMF_VARS_4M.fd'),
    root,
  };
}

export interface RunningMachine extends AsyncDisposable {
  /** Endpoint of the agent's init port, on the loopback of the host. */
  readonly endpoint: string;
  /** The files from which the machine booted. */
  readonly files: BootFiles;
  /** The console output of the machine. */
  console(): string;
}

/**
 * Boots the machine once with the stored state of the TPM, and resolves when the agent reports that it is
 * ready.
 */
export async function bootMachine(
  directory: string,
  options: {
    readonly boot: BootDirectory;
    readonly commandLine: string;
    readonly tpm: string;
    readonly log: string;
  },
): Promise<RunningMachine> {
  const { boot, commandLine } = options;
  const initrd = await createInitramfs(boot.root);
  const at = (name: string): string => join(directory, name);
  await mkdir(directory, { recursive: true });
  await writeFile(at('initrd'), initrd);
  await copyFile(boot.firmwareVariables, at('variables.fd'));
  const port = await findFreePort();
  // prettier-ignore
  const tpm = spawn('swtpm', ['socket', '--tpm2', '--tpmstate', `dir=${options.tpm}`, '--ctrl', `type=unixio,path=${at('tpm.sock')}`, '--terminate'], { stdio: 'ignore' });
  await once(tpm, 'spawn');
  // prettier-ignore
  const qemu = spawn('qemu-system-x86_64', [
    '-machine', 'q35,smm=off', '-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', '2', '-m', String(MEMORY_MIB),
    '-nographic', '-no-reboot', '-nodefaults', '-serial', 'stdio',
    '-drive', `if=pflash,format=raw,unit=0,readonly=on,file=${boot.firmware}`,
    '-drive', `if=pflash,format=raw,unit=1,file=${at('variables.fd')}`,
    '-chardev', `socket,id=tpm,path=${at('tpm.sock')}`, '-tpmdev', 'emulator,id=tpm0,chardev=tpm', '-device', 'tpm-tis,tpmdev=tpm0',
    '-netdev', `user,id=net,net=${VM.network},restrict=on,hostfwd=tcp:127.0.0.1:${port}-${VM.address}:${VM.initPort}`,
    '-device', 'virtio-net-pci,netdev=net,romfile=',
    '-kernel', boot.kernel, '-initrd', at('initrd'), '-append', commandLine,
  ], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  const ready = Promise.withResolvers<void>();
  qemu.once('error', ready.reject);
  qemu.once('exit', (code) =>
    ready.reject(new Error(`the machine ended (${code}): ${lines.slice(-5).join(' | ')}`)),
  );
  createInterface({ input: qemu.stdout }).on('line', (line) => {
    lines.push(line);
    void appendFile(options.log, `${line}\n`);
    if (line.includes('"waiting for an owner"')) ready.resolve();
  });
  const stop = async (): Promise<void> => {
    if (qemu.exitCode === null && qemu.kill('SIGKILL')) await once(qemu, 'exit');
    if (tpm.exitCode === null && tpm.kill('SIGTERM')) await once(tpm, 'exit');
  };
  try {
    await ready.promise;
  } catch (error) {
    await stop();
    throw error;
  }
  ready.promise.catch(() => undefined);
  return {
    endpoint: `127.0.0.1:${port}`,
    files: { kernel: await readFile(boot.kernel), initrd, commandLine, memoryBytes: MEMORY_MIB * 2 ** 20 },
    console: () => lines.join('\n'),
    [Symbol.asyncDispose]: stop,
  };
}

function moduleFile(name: string): string {
  return `${name.slice(name.lastIndexOf('/') + 1)}.ko`;
}

/** The init script of the initrd. It does only what is necessary before the agent can start. */
function initScript(): string {
  const busybox = (command: string): string => `/bin/busybox ${command}`;
  return [
    '#!/bin/busybox sh',
    ...['proc /proc', 'sysfs /sys', 'devtmpfs /dev', 'tmpfs /run', 'tmpfs /tmp'].map((mount) =>
      busybox(`mount -t ${mount.replace(' ', ' none ')}`),
    ),
    busybox('mount -t securityfs none /sys/kernel/security'),
    busybox('mkdir -p /var/lib'),
    ...NETWORK_MODULES.map((name) => busybox(`insmod /modules/${moduleFile(name)}`)),
    busybox('ip link set lo up'),
    busybox('ip link set eth0 up'),
    busybox(`ip addr add ${VM.address}/24 dev eth0`),
    '/usr/lib/cluster/node /usr/lib/cluster/bootstrapper.mjs',
    busybox('poweroff -f'),
    '',
  ].join('\n');
}

async function run(...argv: [string, ...string[]]): Promise<void> {
  await commands.run({ argv, signal: new AbortController().signal });
}
