import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';

const DEVICE = '/dev/kvm';

/** How the guest's processor runs: on the host's (KVM), or emulated (TCG). */
export type Accelerator = 'kvm' | 'tcg';

/** The arguments of QEMU for each. An emulated one has AES instructions too; five-level page tables only slow it down. */
export const ACCELERATOR_ARGUMENTS: Readonly<Record<Accelerator, readonly string[]>> = {
  kvm: ['-accel', 'kvm', '-cpu', 'host'],
  tcg: ['-accel', 'tcg,thread=multi', '-cpu', 'max,la57=off'],
};

/** The accelerator that this machine has. */
export async function findAccelerator(): Promise<Accelerator> {
  const isAccessible = await access(DEVICE, constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
  return isAccessible && hasVirtualization(await readFile('/proc/cpuinfo', 'utf8')) ? 'kvm' : 'tcg';
}

/** Whether the processor can run guests: a container may have the device without it, and then no guest gets further than its start. */
export function hasVirtualization(cpuinfo: string): boolean {
  return /^flags\s*:.* (vmx|svm)( |$)/m.test(cpuinfo);
}
