import type { IpFamily } from '../../endpoint/index.ts';
import { isIPv4, isIPv6 } from 'node:net';
import { ExecError } from '../../exec/index.ts';
import { readMounts } from '../../platform/index.ts';
import { type HostPorts, output } from '../host/host-ports.ts';
import { LocalMachineError } from '../errors.ts';
import { linkName } from './names.ts';

/**
 * The network of one cluster: 198.18.N.0/24 on a bridge in its own network namespace, the switch. The firewall, forwarding and bridges
 * of the host do not see the traffic between nodes, and the only link out of the network goes to the host:
 *
 *     host ── clu<N> .1 ══ host ┐
 *                               sw .254 (bridge; anything else is unreachable)
 *     node n1 ─ eth0 .11 ══ p11 ┤
 *     node n2 ─ eth0 .12 ══ p12 ┘
 *
 * In a cluster with IPv6, nodes, switch and host also have addresses in 2001:2:0:N::/64 (RFC 5180), with the same numbers. A node
 * with IPv6 only has no IPv4 address besides that of its loopback interface.
 */
export interface NodeNetwork {
  /** N. The names of all links, namespaces and cgroups of the cluster contain this number. */
  readonly number: number;
}

/** Bind-mounted network namespaces, one directory for each cluster. */
export const RUN_DIRECTORY = '/run/cluster-mini';
/** The last numbers of the addresses of host and switch. */
const [HOST, SWITCH] = [1, 254];
const FIRST_HOST = 11;
const LAST_HOST = 250;
/** The highest number of a cluster. */
export const LAST_NETWORK = 250;

/** The address of the host that nodes of this family reach. */
export function hostAddress(network: NodeNetwork, family: IpFamily = 'IPv4'): string {
  return addressWith(network, HOST, family);
}

/** The address of the switch, the default gateway of the nodes. */
export function switchAddress(network: NodeNetwork, family: IpFamily = 'IPv4'): string {
  return addressWith(network, SWITCH, family);
}

/** The address of the other family that belongs to an address: both end with the same number. */
export function otherAddress(network: NodeNetwork, address: string): string {
  return addressWith(network, numberIn(address), isIPv6(address) ? 'IPv4' : 'IPv6');
}

/** The lowest free node address. @param taken addresses of nodes, of either family */
export function nextAddress(
  network: NodeNetwork,
  taken: readonly string[],
  family: IpFamily = 'IPv4',
): string {
  const numbers = new Set(taken.map(numberIn));
  for (let host = FIRST_HOST; host <= LAST_HOST; host++)
    if (!numbers.has(host)) return addressWith(network, host, family);
  throw new LocalMachineError('localmachines-no-network', `no free address in 198.18.${network.number}.0/24`);
}

function addressWith({ number }: NodeNetwork, host: number, family: IpFamily): string {
  return family === 'IPv4'
    ? `198.18.${number}.${host}`
    : `2001:2:0:${number.toString(16)}::${host.toString(16)}`;
}

/** The last number of an address of a node. */
function numberIn(address: string): number {
  return isIPv6(address)
    ? Number.parseInt(address.slice(address.lastIndexOf(':') + 1), 16)
    : Number(address.slice(address.lastIndexOf('.') + 1));
}

/** The network numbers to which the host has routes, from `ip -j -4 route show table all`. */
export function routedNumbers(routesJson: string): ReadonlySet<number> {
  const routes = JSON.parse(routesJson) as readonly { readonly dst?: string }[];
  const numbers = routes.flatMap(({ dst }) => {
    const match = /^198\.18\.(\d+)\./.exec(dst ?? '');
    return match?.[1] === undefined ? [] : [Number(match[1])];
  });
  return new Set(numbers);
}

/** The directory with the namespaces of a cluster. */
export function runDirectory({ number }: NodeNetwork): string {
  return `${RUN_DIRECTORY}/${linkName(number)}`;
}

/** The bind mount of the network namespace of a node, or of the switch. */
export function namespaceFile(network: NodeNetwork, node: string | undefined): string {
  return `${runDirectory(network)}/${node === undefined ? 'switch' : `node-${node}`}`;
}

/**
 * The link-layer address for an IP address: locally administered (IEEE 802 §8.4) and always the same, so that the neighbor tables of
 * other nodes stay valid when a node is power-cycled.
 */
export function linkAddress(address: string): string {
  const last = address.split('.').map((byte) => Number(byte).toString(16).padStart(2, '0'));
  return `02:63:${last.join(':')}`;
}

/** The commands that create the switch in an existing namespace. */
export function switchCommands(network: NodeNetwork): readonly (readonly [string, ...string[]])[] {
  const namespace = namespaceFile(network, undefined);
  const link = linkName(network.number);
  const inside = ['nsenter', `--net=${namespace}`, '--'] as const;
  return [
    [...inside, 'ip', 'link', 'set', 'lo', 'up'],
    // prettier-ignore
    [...inside, 'ip', 'link', 'add', 'sw', 'address', linkAddress(switchAddress(network)), 'type', 'bridge', 'forward_delay', '0'],
    [...inside, 'ip', 'address', 'add', `${switchAddress(network)}/24`, 'dev', 'sw'],
    [...inside, 'ip', 'link', 'set', 'sw', 'up'],
    // With this route, connections to other networks fail at once instead of timing out.
    [...inside, 'ip', 'route', 'add', 'unreachable', 'default'],
    [...inside, 'sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward'],
    // prettier-ignore
    ['ip', 'link', 'add', link, 'address', linkAddress(hostAddress(network)), 'type', 'veth', 'peer', 'name', 'host', 'netns', namespace],
    [...inside, 'ip', 'link', 'set', 'host', 'master', 'sw', 'up'],
    ['ip', 'address', 'add', `${hostAddress(network)}/24`, 'dev', link],
    ['ip', 'link', 'set', link, 'up'],
  ];
}

/** The commands that connect an existing namespace of a node to the switch. */
export function nodeCommands(
  network: NodeNetwork,
  node: AttachedNode,
): readonly (readonly [string, ...string[]])[] {
  const namespace = namespaceFile(network, node.name);
  const port = portName(node.address);
  const ipv4 = isIPv4(node.address) ? node.address : node.ipv4Address;
  const ipv6 = isIPv6(node.address) ? node.address : node.ipv6Address;
  const numbered = ipv4 ?? otherAddress(network, node.address);
  const inside = ['nsenter', `--net=${namespace}`, '--'] as const;
  const atSwitch = ['nsenter', `--net=${namespaceFile(network, undefined)}`, '--'] as const;
  return [
    // prettier-ignore
    [...inside, 'ip', 'link', 'add', 'eth0', 'address', linkAddress(numbered), 'type', 'veth', 'peer', 'name', port, 'netns', namespaceFile(network, undefined)],
    [...inside, 'ip', 'link', 'set', 'lo', 'up'],
    ...(ipv4 === undefined
      ? []
      : [[...inside, 'ip', 'address', 'add', `${ipv4}/24`, 'dev', 'eth0'] as const]),
    [...inside, 'ip', 'link', 'set', 'eth0', 'up'],
    ...(ipv4 === undefined
      ? []
      : [[...inside, 'ip', 'route', 'add', 'default', 'via', switchAddress(network)] as const]),
    [...atSwitch, 'ip', 'link', 'set', port, 'master', 'sw', 'up'],
    ...(ipv6 === undefined ? [] : ipv6Commands(network, ipv6, { inside, atSwitch })),
  ];
}

/** Without duplicate address detection (RFC 4862), which would make each start wait: addresses are numbered here. */
function ipv6Commands(
  network: NodeNetwork,
  address: string,
  { inside, atSwitch }: Readonly<Record<'inside' | 'atSwitch', readonly [string, ...string[]]>>,
): readonly (readonly [string, ...string[]])[] {
  const gateway = switchAddress(network, 'IPv6');
  const set = (name: string, value: string): [string, ...string[]] => [
    'sh',
    '-c',
    `echo ${value} > /proc/sys/net/ipv6/conf/${name}`,
  ];
  return [
    [...atSwitch, ...set('all/disable_ipv6', '0')],
    [...atSwitch, ...set('all/forwarding', '1')],
    [...atSwitch, 'ip', '-6', 'address', 'replace', `${gateway}/64`, 'dev', 'sw', 'nodad'],
    [...atSwitch, 'ip', '-6', 'route', 'replace', 'unreachable', 'default'],
    // The host may have IPv6 turned off for its other links.
    set(`${linkName(network.number)}/disable_ipv6`, '0'),
    // prettier-ignore
    ['ip', '-6', 'address', 'replace', `${hostAddress(network, 'IPv6')}/64`, 'dev', linkName(network.number), 'nodad'],
    [...inside, ...set('all/disable_ipv6', '0')],
    [...inside, 'ip', '-6', 'address', 'add', `${address}/64`, 'dev', 'eth0', 'nodad'],
    [...inside, 'ip', '-6', 'route', 'add', 'default', 'via', gateway],
  ];
}

/** The switch's end of the link of a node. Setting it down disconnects the node. */
export function portName(address: string): string {
  return `p${numberIn(address)}`;
}

/** Creates the switch unless it exists. An incomplete switch is created again. */
export async function ensureSwitch(
  host: HostPorts,
  network: NodeNetwork,
  signal: AbortSignal,
): Promise<void> {
  const complete = `${runDirectory(network)}/complete`;
  const kept = (await mountPoints(host)).includes(namespaceFile(network, undefined));
  if (kept && (await host.files.stat(complete)) !== undefined) return;
  await removeNamespace(host, network, undefined, signal);
  await removeHostLink(host, network, signal);
  await createNamespace(host, network, undefined, signal);
  await runPlan(host, switchCommands(network), signal);
  await host.files.writeAtomic(complete, '');
}

/** Creates a new namespace for the node, with a link to the switch. An earlier namespace is removed. */
export async function connectNode(
  host: HostPorts,
  network: NodeNetwork,
  node: AttachedNode,
  signal: AbortSignal,
): Promise<void> {
  await disconnectNode(host, network, node, signal);
  await createNamespace(host, network, node.name, signal);
  await runPlan(host, nodeCommands(network, node), signal);
}

/** Creates a cable (tun, layer 2) at the switch for a virtual machine. An earlier one is removed. */
export async function connectVirtualNode(
  host: HostPorts,
  network: NodeNetwork,
  node: AttachedNode,
  signal: AbortSignal,
): Promise<void> {
  await disconnectNode(host, network, node, signal);
  await runPlan(host, virtualNodeCommands(network, node), signal);
}

/** The commands that connect a virtual machine to the switch. Its QEMU runs in the namespace of the switch. */
export function virtualNodeCommands(
  network: NodeNetwork,
  { address }: AttachedNode,
): readonly (readonly [string, ...string[]])[] {
  const atSwitch = ['nsenter', `--net=${namespaceFile(network, undefined)}`, '--', 'ip'] as const;
  const port = portName(address);
  return [
    [...atSwitch, 'tuntap', 'add', port, 'mode', 'tap'],
    [...atSwitch, 'link', 'set', port, 'master', 'sw', 'up'],
  ];
}

/** Removes the namespace of the node, if it exists, with everything in it. */
export async function disconnectNode(
  host: HostPorts,
  network: NodeNetwork,
  node: AttachedNode,
  signal: AbortSignal,
): Promise<void> {
  await removeNamespace(host, network, node.name, signal);
  // The kernel removes a namespace asynchronously; the link must leave the switch now.
  const atSwitch = ['nsenter', `--net=${namespaceFile(network, undefined)}`, '--'] as const;
  const argv = [...atSwitch, 'ip', 'link', 'delete', portName(node.address)] as const;
  const result = await host.commands.run({ argv, okExitCodes: [0, 1, 2], signal });
  if (!isLinkGone(result))
    throw new ExecError('exec-failed', { argv, exitCode: result.exitCode, outputTail: result.stderr });
}

/** Whether `ip link delete` has left no link: it deleted it, did not find it, or the kernel removed it after it was found. */
export function isLinkGone({
  exitCode,
  stderr,
}: {
  readonly exitCode: number;
  readonly stderr: string;
}): boolean {
  return exitCode < 2 || stderr.includes('No such device');
}

/** Removes the whole network, as far as it exists: namespaces, links, directory. */
export async function removeNetwork(
  host: HostPorts,
  network: NodeNetwork,
  signal: AbortSignal,
): Promise<void> {
  const directory = runDirectory(network);
  for (const point of await mountPoints(host)) {
    if (point.startsWith(`${directory}/`)) await output(host, ['umount', point], signal);
  }
  await removeHostLink(host, network, signal);
  await host.files.remove(directory);
  if ((await host.files.list(RUN_DIRECTORY)).length === 0) await host.files.remove(RUN_DIRECTORY);
}

async function removeHostLink(host: HostPorts, network: NodeNetwork, signal: AbortSignal): Promise<void> {
  const argv = ['ip', 'link', 'delete', linkName(network.number)] as const;
  await host.commands.run({ argv: [...argv], okExitCodes: [0, 1], signal });
}

async function removeNamespace(
  host: HostPorts,
  network: NodeNetwork,
  node: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const file = namespaceFile(network, node);
  if ((await mountPoints(host)).includes(file)) await output(host, ['umount', file], signal);
  await host.files.remove(file);
}

async function mountPoints(host: HostPorts): Promise<readonly string[]> {
  return (await readMounts(host.files)).map(({ point }) => point);
}

async function createNamespace(
  host: HostPorts,
  network: NodeNetwork,
  node: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const file = namespaceFile(network, node);
  await host.files.makeDirectory(runDirectory(network));
  await host.files.createExclusive(file, '');
  await output(host, ['unshare', `--net=${file}`, '--', 'true'], signal);
}

async function runPlan(
  host: HostPorts,
  plan: readonly (readonly [string, ...string[]])[],
  signal: AbortSignal,
): Promise<void> {
  for (const argv of plan) await output(host, argv, signal);
}

/** A node of the network. */
export interface AttachedNode {
  readonly name: string;
  readonly address: string;
  /** The second address of a node with both families. */
  readonly ipv4Address?: string | undefined;
  readonly ipv6Address?: string | undefined;
}
