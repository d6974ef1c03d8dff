import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findFreePort } from '../../internal/testing/index.ts';

const MEMORY_MIB = 2048;
const VM = { network: '198.18.200.0/24', address: '198.18.200.15', initPort: 9000 };

/** A machine that is reached at its own address. */
export interface NodeNetwork {
  readonly address: string;
  readonly mac: string;
  /** The network interface of the host at the other end of the cable (tun, layer 2). */
  readonly tap: string;
}

/** What a machine starts from instead of its disk. */
export type BootMedium =
  | { readonly kind: 'cd'; readonly file: string }
  /** The file is in the directory, and the machine gets it by TFTP. */
  | { readonly kind: 'network'; readonly directory: string; readonly file: string };

/** Time limit for one line on the console: an emulated machine boots in minutes. */
const START_MS = 1_200_000;

/** A machine that has booted from a disk image. */
export interface ImageMachine extends AsyncDisposable {
  /** Endpoint of the agent's init port, on the loopback of the host. */
  readonly endpoint: string;
  /** The console output so far. */
  console(): string;
  /** Resolves when the console shows a line that matches, also an earlier one. */
  until(pattern: RegExp): Promise<void>;
  /** Types on the serial console. */
  type(text: string): void;
}

/** The console shows the fingerprint of the machine: its agent runs. */
const RUNS = /sha256:[0-9a-f]{64}/;

/**
 * Boots the disk in QEMU with OVMF and a software TPM, and resolves when the console shows a line that matches `until`.
 */
export async function bootImage(
  directory: string,
  options: {
    readonly disk: string;
    /** Directory with `OVMF_CODE_4M.fd` and `OVMF_VARS_4M.fd`. */
    readonly firmware: string;
    readonly tpm: string;
    readonly log: string;
    /** Default: the machine's fingerprint. */
    readonly until?: RegExp;
    /** Whether the machine's writes change the disk file. Otherwise they are lost when the machine stops. */
    readonly keepsWrites?: boolean;
    readonly memoryMib?: number;
    /** nice(1) of the machine: another one that this one needs gets more of the host's processors. */
    readonly niceness?: number;
    /** Whether the machine starts again after a restart. Otherwise a restart ends it. */
    readonly restarts?: boolean;
    /** Default: the disk. */
    readonly medium?: BootMedium;
    /** A machine with hardware of servers: a SATA disk, a RAID controller with another disk, and an Intel network card. */
    readonly server?: { readonly raidDisk: string };
    /** Default: only the init port, on the loopback of the host. 'none': no network interface at all. */
    readonly network?: NodeNetwork | 'none';
  },
): Promise<ImageMachine> {
  const at = (name: string): string => join(directory, name);
  await mkdir(directory, { recursive: true });
  await copyFile(join(options.firmware, 'OVMF_VARS_4M.fd'), at('variables.fd'));
  const { until = RUNS, keepsWrites = false, memoryMib = MEMORY_MIB, niceness = 0 } = options;
  const { network, medium, server } = options;
  const port = await findFreePort();
  const tap = network === 'none' ? undefined : network;
  const endpoint = tap === undefined ? `127.0.0.1:${port}` : `${tap.address}:${VM.initPort}`;
  // prettier-ignore
  const interfaces = network === 'none' ? [] : [
    '-netdev', tap === undefined ? `user,id=net,net=${VM.network},restrict=on,hostfwd=tcp:${endpoint}-${VM.address}:${VM.initPort}${tftpOf(medium)}` : `tap,id=net,ifname=${tap.tap},script=no,downscript=no`,
    '-device', `${server === undefined ? 'virtio-net-pci' : 'e1000e'},netdev=net,romfile=${tap === undefined ? '' : `,mac=${tap.mac}`}${medium?.kind === 'network' ? ',bootindex=0' : ''}`,
  ];
  const snapshot = keepsWrites ? 'off' : 'on';
  // prettier-ignore
  const tpm = spawn('swtpm', ['socket', '--tpm2', '--tpmstate', `dir=${options.tpm}`, '--ctrl', `type=unixio,path=${at('tpm.sock')}`, '--terminate'], { stdio: 'ignore' });
  await once(tpm, 'spawn');
  // prettier-ignore
  const qemu = spawn('nice', [
    '-n', String(niceness), 'qemu-system-x86_64',
    '-machine', 'q35,smm=off', '-accel', 'tcg,thread=multi', '-cpu', 'max,la57=off', '-smp', '2', '-m', String(memoryMib),
    '-nographic', '-nodefaults', ...(options.restarts === true ? [] : ['-no-reboot']), '-serial', 'stdio',
    '-drive', `if=pflash,format=raw,unit=0,readonly=on,file=${join(options.firmware, 'OVMF_CODE_4M.fd')}`,
    '-drive', `if=pflash,format=raw,unit=1,file=${at('variables.fd')}`,
    '-chardev', `socket,id=tpm,path=${at('tpm.sock')}`, '-tpmdev', 'emulator,id=tpm0,chardev=tpm', '-device', 'tpm-tis,tpmdev=tpm0',
    ...interfaces,
    '-drive', `file=${options.disk},format=raw,if=none,id=disk,snapshot=${snapshot}`,
    // With a boot order the firmware has no entry for the network card, whose address would be measured into PCR 1.
    '-device', server === undefined ? 'virtio-blk-pci,drive=disk,bootindex=1' : 'ide-hd,drive=disk,bootindex=1',
    ...(server === undefined ? [] : [
      '-drive', `file=${server.raidDisk},format=raw,if=none,id=raid-disk,snapshot=${snapshot}`,
      '-device', 'megasas,id=raid', '-device', 'scsi-hd,drive=raid-disk,bus=raid.0,serial=state',
    ]),
    ...(medium?.kind === 'cd' ? ['-drive', `file=${medium.file},format=raw,media=cdrom,if=none,id=cd`, '-device', 'ide-cd,drive=cd,bootindex=0'] : []),
  ], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines: string[] = [];
  createInterface({ input: qemu.stdout }).on('line', (line) => {
    lines.push(line);
    void appendFile(options.log, `${line}\n`);
    qemu.emit('console');
  });
  const shows = async (pattern: RegExp): Promise<void> => {
    const found = Promise.withResolvers<void>();
    const look = (): void => {
      if (lines.some((line) => pattern.test(line))) found.resolve();
    };
    const end = (code: unknown): void =>
      found.reject(new Error(`the machine ended (${String(code)}): ${lines.slice(-5).join(' | ')}`));
    const late = setTimeout(
      () => found.reject(new Error(`the machine did not show ${pattern.source}`)),
      START_MS,
    );
    qemu.on('console', look).once('error', end).once('exit', end);
    look();
    await found.promise.finally(() => {
      clearTimeout(late);
      qemu.off('console', look).off('error', end).off('exit', end);
    });
  };
  const stop = async (): Promise<void> => {
    if (qemu.exitCode === null && qemu.kill('SIGKILL')) await once(qemu, 'exit');
    if (tpm.exitCode === null && tpm.kill('SIGTERM')) await once(tpm, 'exit');
  };
  try {
    await shows(until);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    endpoint,
    until: shows,
    console: () => lines.join('\n'),
    type: (text) => void qemu.stdin.write(text),
    [Symbol.asyncDispose]: stop,
  };
}

function tftpOf(medium: BootMedium | undefined): string {
  return medium?.kind === 'network' ? `,tftp=${medium.directory},bootfile=${medium.file}` : '';
}
