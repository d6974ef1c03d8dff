/** sysctl.d(5) file that the unit of the kubelet applies before each start. */
export const KERNEL_DEFAULTS_FILE = '/etc/sysctl.d/60-cluster-kubelet.conf';

/**
 * The kernel parameters that the kubelet requires (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go).
 * With `protectKernelDefaults` it only checks them, so that a kubelet never overwrites what an operator has set: a
 * later sysctl.d file with another value makes it refuse to start, and its log names the parameter. On a local machine
 * (a container of `cluster mini`), each of these files in /proc is a separate copy (internal/localmachines).
 */
const KERNEL_DEFAULTS: Readonly<Record<string, number>> = {
  'vm.overcommit_memory': 1,
  'vm.panic_on_oom': 0,
  'kernel.panic': 10,
  'kernel.panic_on_oops': 1,
  'kernel.keys.root_maxkeys': 1_000_000,
  'kernel.keys.root_maxbytes': 25_000_000,
};

/** Builds the sysctl.d(5) file. */
export function buildKernelDefaults(): string {
  const lines = Object.entries(KERNEL_DEFAULTS).map(([name, value]) => `${name} = ${value}\n`);
  return `# Required by the kubelet. Written by the agent of the cluster.\n${lines.join('')}`;
}
