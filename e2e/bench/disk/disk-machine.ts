import { randomBytes, randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import { formatArguments, LAYOUT, openArguments } from '../../../internal/luks/index.ts';
import { Machine } from '../../machines/shell-machine.ts';
import { ACCELERATOR_ARGUMENTS, type Accelerator } from './accelerator.ts';
import { DISKS, type Disk } from './disk-costs.ts';
import { createMachineFiles } from './machine-files.ts';
import { createOwnDirectory } from './own-directory.ts';

const DISK_MIB = 384;
const MEMORY_MIB = 1536;
const PREPARATION_MS = 900_000;
/** With tags, formatting writes the whole disk. */
const FORMAT_MS = 600_000;
/** Not in the directory for temporary files, which may be in memory. */
const PARENT = join(import.meta.dirname, '../../../dist/bench-disk');
const KEY = '/run/key';
const commands = new ExecaRunner({ path: process.env['PATH'] ?? '/usr/bin:/bin' });

/** A machine with three disks of the same size. */
export interface DiskMachine extends AsyncDisposable {
  readonly machine: Machine;
  /** What is read and written: the disk itself, or its mapping. */
  readonly devices: Readonly<Record<Disk, string>>;
}

/**
 * Boots a machine with three disks, and encrypts two of them as a node encrypts its state disk. Nothing of it is left after a kill: the
 * machine ends with this process, its files are deleted when it has opened them, and the next run deletes what an interrupted
 * preparation left.
 */
export async function bootDiskMachine(accelerator: Accelerator): Promise<DiskMachine> {
  const directory = await createOwnDirectory(PARENT);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const signal = AbortSignal.timeout(PREPARATION_MS);
  const { kernel, initrd } = await createMachineFiles(directory, signal);
  const drives: string[] = [];
  for (const disk of DISKS) {
    const file = join(directory, disk);
    // Every block is allocated, so that no disk has to do it during its measurement.
    const argv = ['dd', 'if=/dev/zero', `of=${file}`, 'bs=1M', `count=${DISK_MIB}`, 'conv=fsync'] as const;
    await commands.run({ argv, signal });
    drives.push('-drive', `file=${file},format=raw,if=none,id=${disk},cache=none`);
    // A mapping passes neither on, and writes to blocks of which a file was zeroed in this way are slower on the host.
    const device = 'discard=off,write-zeroes=off';
    drives.push('-device', `virtio-blk-pci,drive=${disk},serial=${disk},${device}`);
  }
  const machine = stack.use(
    // prettier-ignore
    new Machine([
      '-machine', 'q35', ...ACCELERATOR_ARGUMENTS[accelerator], '-smp', '2', '-m', String(MEMORY_MIB),
      '-nodefaults', '-display', 'none', '-no-reboot', '-serial', 'null', '-serial', 'stdio', ...drives,
      '-kernel', kernel, '-initrd', initrd, '-append', 'console=ttyS0 panic=-1 no_timer_check',
    ]),
  );
  await machine.started();
  await rm(directory, { recursive: true });
  const devices = await encryptDisks(machine);
  const owner = stack.move();
  return { machine, devices, [Symbol.asyncDispose]: () => owner.disposeAsync() };
}

/** With the arguments of cryptsetup(8) that `bootstrapper/disk` uses. */
async function encryptDisks(machine: Machine): Promise<Readonly<Record<Disk, string>>> {
  // No udev creates the devices.
  await machine.sh(`echo ${randomBytes(32).toString('hex')} | head -c 32 > ${KEY}`);
  const encrypt = async (disk: Exclude<Disk, 'plain'>): Promise<string> => {
    const device = await deviceOf(machine, disk);
    const header = `/run/header-${disk}`;
    const format = formatArguments({
      ...{ uuid: randomUUID(), isAuthenticated: disk === 'authenticated', header, device },
    });
    const open = openArguments({ header, slot: 0, device, name: disk });
    await machine.sh(
      `export DM_DISABLE_UDEV=1
      head -c ${LAYOUT.headerBytes} /dev/zero > ${header} &&
      cryptsetup --batch-mode ${format.join(' ')} < ${KEY} && cryptsetup --batch-mode ${open.join(' ')} < ${KEY}`,
      FORMAT_MS,
    );
    return `/dev/mapper/${disk}`;
  };
  return {
    plain: await deviceOf(machine, 'plain'),
    encrypted: await encrypt('encrypted'),
    authenticated: await encrypt('authenticated'),
  };
}

async function deviceOf(machine: Machine, disk: Disk): Promise<string> {
  const path = await machine.sh(`grep -l -x ${disk} /sys/block/*/serial`);
  return path.replace(/^\/sys\/block\/(\w+)\/serial$/, '/dev/$1');
}
