import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../cluster/harness/node-shell.ts';
import { Machine } from '../machines/shell-machine.ts';
import type { ShellMachineFiles } from '../machines/shell-root.ts';

const MEMORY_MIB = 1024;
const CABLE_SECONDS = 300;

/** Two machines at both ends of a cable, of which QEMU writes every frame to a file. */
export interface Pair extends AsyncDisposable {
  readonly machines: readonly [Machine, Machine];
  readonly capture: string;
}

/** Boots both machines. Their addresses are 192.0.2.1, 192.0.2.2, fd00:192::1 and fd00:192::2. The emulation is slow, and the same everywhere. */
export async function bootPair(directory: string, { kernel, initrd }: ShellMachineFiles): Promise<Pair> {
  const capture = join(directory, 'capture.pcap');
  const cable = join(directory, 'cable.sock');
  // On a busy host, an emulated timer is too late for the kernel's check of it (no_timer_check).
  const argvOf = (own: number, peer: number, net: readonly string[]): readonly string[] =>
    // prettier-ignore
    [
      '-machine', 'q35', '-accel', 'tcg,thread=multi', '-cpu', 'max,la57=off', '-smp', '1', '-m', String(MEMORY_MIB),
      '-nodefaults', '-display', 'none', '-no-reboot',
      '-serial', `file:${join(directory, `console-${own}.log`)}`, '-serial', 'stdio',
      '-kernel', kernel, '-initrd', initrd, '-append', `console=ttyS0 panic=-1 no_timer_check own=${own} peer=${peer}`,
      ...net, '-device', `virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:0${own}`,
    ];
  const end = (server: string): string => `stream,id=net,server=${server},addr.type=unix,addr.path=${cable}`;
  const dump = `filter-dump,id=dump,netdev=net,file=${capture},maxlen=65536`;
  const first = new Machine(argvOf(1, 2, ['-netdev', end('on'), '-object', dump]));
  const started: Machine[] = [first];
  const stop = async (): Promise<void> => {
    for (const machine of started) await machine[Symbol.asyncDispose]();
  };
  try {
    await eventually(
      'the cable',
      CABLE_SECONDS,
      () => stat(cable),
      (found) => found.isSocket(),
    );
    const second = new Machine(argvOf(2, 1, ['-netdev', end('off')]));
    started.push(second);
    await Promise.all([first.started(), second.started()]);
    return { machines: [first, second], capture, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
