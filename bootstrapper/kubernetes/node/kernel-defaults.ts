import { readText, type FilePort } from '../../../internal/file/index.ts';

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

/**
 * Builds the sysctl.d(5) file.
 * @param ipv6 undefined: the cluster has no IPv6
 */
export function buildKernelDefaults(ipv6: Ipv6Interfaces | undefined): string {
  const settings = { ...KERNEL_DEFAULTS, ...(ipv6 && forwardingOf(ipv6)) };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  return `# Required by the kubelet. Written by the agent of the cluster.\n${lines.join('')}`;
}

/** The network interfaces whose IPv6 routes the kernel learns from routers (accept_ra is 1 or 2). */
export interface Ipv6Interfaces {
  readonly withRouters: readonly string[];
}

/**
 * A machine that forwards packets ignores routers unless accept_ra is 2 (Documentation/networking/ip-sysctl.rst): it would lose
 * its default route. So that parameter comes first. A dash: an interface may be gone.
 */
function forwardingOf({ withRouters }: Ipv6Interfaces): Readonly<Record<string, number>> {
  const accepted = withRouters.map((name) => [`-net/ipv6/conf/${name}/accept_ra`, 2] as const);
  return { ...Object.fromEntries(accepted), 'net.ipv6.conf.all.forwarding': 1 };
}

const INTERFACES = '/proc/sys/net/ipv6/conf';
/** `all` and `default` are no interfaces; the others appear and disappear with pods. */
const NO_LINK = /^(all|default|lo|cni|flannel|veth|docker|kube|cilium|cali|tunl)/;

/** Reads which interfaces of this machine use routers. */
export async function readIpv6Interfaces(files: Pick<FilePort, 'list' | 'read'>): Promise<Ipv6Interfaces> {
  const withRouters: string[] = [];
  for (const name of await files.list(INTERFACES)) {
    if (NO_LINK.test(name)) continue;
    const value = (await readText(files, `${INTERFACES}/${name}/accept_ra`))?.trim();
    if (value === '1' || value === '2') withRouters.push(name);
  }
  return { withRouters: withRouters.toSorted() };
}
