import process from 'node:process';
import { CACHE } from '../../build-context.ts';
import type { Machine } from '../../machines/shell-machine.ts';
import type { BenchResult } from '../result.ts';
import { findAccelerator, type Accelerator } from './accelerator.ts';
import { checkHost } from './check-host.ts';
import { CIPHER_COMMAND, HOST_CIPHER, hostCipherSpeed, parseCipherSpeed } from './cipher-speed.ts';
import { costsOf, DISKS, orderOf, type Disk, type DiskRound, type DiskRun } from './disk-costs.ts';
import { etcdCommand, parseEtcd } from './etcd-fsync.ts';
import { fioCommand, parseFio, type FioRun, type WorkloadName } from './fio.ts';
import { bootDiskMachine, type DiskMachine } from './disk-machine.ts';

const ROUNDS = 3;
const FIO_SECONDS = 5;
/** An emulated etcd makes about 25 writes a second: 500 fsyncs, so that five are above the 99th percentile. */
const ETCD_SECONDS = 20;
/** Of one command in the guest; the slowest takes a minute. */
const LIMIT_MS = 120_000;
const MB = 1e6;
/** What a reader must know about ratios without KVM. */
const EMULATED =
  'the rows of fio without tags overstate the cost; emulation and a loaded host slow the plain disk too, so that the rows of etcd allow no conclusion';

/**
 * Measures what the encryption of a state disk costs: three equal disks of one guest, of which one is plain, take turns. All have the same
 * kernel, device and host, so that only their ratios say something.
 */
export async function runDiskBench(rounds = ROUNDS): Promise<readonly BenchResult[]> {
  await checkHost({ path: process.env['PATH'] ?? '', cache: CACHE });
  const accelerator = await findAccelerator();
  if (accelerator === 'tcg')
    process.stderr.write(`no KVM, so that the cipher of the guest is emulated: ${EMULATED}\n`);
  await using booted = await bootDiskMachine(accelerator);
  const cipher = await measureCipher(booted.machine, accelerator);
  const measured: DiskRound[] = [];
  for (let round = 0; round < rounds; round++) {
    const figures = await measureAll(booted, orderOf(round));
    measured.push(figures);
    const texts = DISKS.map((disk) => describe(disk, figures[disk]));
    process.stderr.write(`round ${round + 1}: ${texts.join('; ')}\n`);
  }
  return [cipher, ...costsOf(measured)];
}

/** One disk after the other, in this order. */
async function measureAll({ machine, devices }: DiskMachine, order: readonly Disk[]): Promise<DiskRound> {
  const runs = new Map<Disk, DiskRun>();
  for (const disk of order) runs.set(disk, await measure(machine, devices[disk]));
  const [plain, encrypted, authenticated] = DISKS.map((disk) => runs.get(disk));
  if (plain === undefined || encrypted === undefined || authenticated === undefined)
    throw new Error(`a round lacks a disk: ${order.join(', ')}`);
  return { plain, encrypted, authenticated };
}

async function measure(machine: Machine, device: string): Promise<DiskRun> {
  const run = async (name: WorkloadName): Promise<FioRun> =>
    parseFio(await machine.sh(fioCommand(name, device, FIO_SECONDS), LIMIT_MS), name);
  return {
    'read-4k': await run('read-4k'),
    'write-4k': await run('write-4k'),
    'read-1m': await run('read-1m'),
    'write-1m': await run('write-1m'),
    etcd: parseEtcd(await machine.sh(etcdCommand(device, ETCD_SECONDS), LIMIT_MS)),
  };
}

/** How fast the cipher is by itself, so that a reader can judge the ratios. */
async function measureCipher(machine: Machine, accelerator: Accelerator): Promise<BenchResult> {
  const inside = parseCipherSpeed(await machine.sh(CIPHER_COMMAND));
  const ratio = (hostCipherSpeed() / inside).toFixed(1);
  const detail =
    accelerator === 'kvm'
      ? `KVM; this machine itself is ${ratio} times as fast`
      : `emulated (no KVM): this machine itself is ${ratio} times as fast; ${EMULATED}`;
  const name = `${HOST_CIPHER.toUpperCase()} in the memory of the guest`;
  return { name, value: inside / MB, unit: 'MB/s', detail };
}

function describe(disk: Disk, run: DiskRun): string {
  const { 'read-4k': read, 'write-4k': write, etcd } = run;
  const fsyncs = `${etcd.fsyncs} fsyncs of etcd, ${etcd.meanMs.toFixed(1)} ms`;
  return `${disk} 4 KiB read ${read.msPerOperation.toFixed(2)} ms, write ${write.msPerOperation.toFixed(2)} ms, ${fsyncs}`;
}
