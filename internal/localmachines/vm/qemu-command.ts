import {
  linkAddress,
  namespaceFile,
  portName,
  runDirectory,
  type NodeNetwork,
} from '../network/cluster-network.ts';

/** How QEMU runs the processor of a machine: on that of the host (KVM), or by emulation (TCG), which is about ten times slower. */
export type Accelerator = 'kvm' | 'tcg';

/** The program of a virtual machine. Images are for amd64 only. */
export const QEMU = 'qemu-system-x86_64';
/** UEFI firmware for virtual machines (OVMF), and the variables with which a new machine starts. */
export const FIRMWARE = {
  code: '/usr/share/OVMF/OVMF_CODE_4M.fd',
  variables: '/usr/share/OVMF/OVMF_VARS_4M.fd',
} as const;
/** Files in the directory of the machine, which is the working directory of QEMU. */
export const VM_FILES = { disk: 'disk.raw', variables: 'variables.fd', fingerprint: 'fingerprint' } as const;

/** Sockets of a machine. The path of a socket has at most 107 bytes, so that they are not in the directory of the machine. */
export function vmSockets(
  network: NodeNetwork,
  name: string,
): { readonly console: string; readonly monitor: string } {
  const directory = runDirectory(network);
  return { console: `${directory}/console-${name}`, monitor: `${directory}/monitor-${name}` };
}

/**
 * The argv of a virtual machine. The registers of its TPM depend on these devices: with `bootindex`, the firmware has no boot entry for
 * the network card. A restart of the machine starts it again, and a shutdown ends QEMU.
 * @param machine `tpmSocket` and `console`: relative to the working directory
 */
export function qemuArgv(machine: {
  readonly network: NodeNetwork;
  readonly name: string;
  readonly address: string;
  readonly memoryMib: number;
  readonly accelerator: Accelerator;
  readonly tpmSocket: string;
  readonly console: string;
}): readonly string[] {
  const { network, name, address, memoryMib, accelerator, tpmSocket, console } = machine;
  const sockets = vmSockets(network, name);
  const [accel, cpu] = accelerator === 'kvm' ? ['kvm', 'host'] : ['tcg,thread=multi', 'max,la57=off'];
  // prettier-ignore
  return [
    'nsenter', `--net=${namespaceFile(network, undefined)}`, '--',
    QEMU, '-name', name,
    '-machine', 'q35,smm=off', '-accel', accel, '-cpu', cpu, '-smp', '2', '-m', String(memoryMib),
    '-nodefaults', '-no-user-config', '-display', 'none',
    '-chardev', `socket,id=console,path=${sockets.console},server=on,wait=off,logfile=${console},logappend=on`, '-serial', 'chardev:console',
    '-chardev', `socket,id=monitor,path=${sockets.monitor},server=on,wait=off`, '-mon', 'chardev=monitor,mode=control',
    '-drive', `if=pflash,format=raw,unit=0,readonly=on,file=${FIRMWARE.code}`,
    '-drive', `if=pflash,format=raw,unit=1,file=${VM_FILES.variables}`,
    '-chardev', `socket,id=tpm,path=${tpmSocket}`, '-tpmdev', 'emulator,id=tpm0,chardev=tpm', '-device', 'tpm-tis,tpmdev=tpm0',
    '-netdev', `tap,id=net,ifname=${portName(address)},script=no,downscript=no`,
    '-device', `virtio-net-pci,netdev=net,romfile=,mac=${linkAddress(address)}`,
    '-drive', `file=${VM_FILES.disk},format=raw,if=none,id=disk`, '-device', 'virtio-blk-pci,drive=disk,bootindex=1',
  ];
}
