import { readMounts } from '../../platform/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { output } from '../host/host-ports.ts';
import { LocalMachineError } from '../errors.ts';
import { linkName } from './names.ts';

/**
 * The network of one cluster: 198.18.N.0/24 on a bridge that lies in a network namespace of its own,
 * the switch. So the host's firewall, forwarding and other bridges neither see nor change what nodes
 * say to each other, and the nodes' only way out is one link to the host:
 *
 *     host ── clu<N> .1 ══ host ┐
 *                               sw .254 (bridge; anything else is unreachable)
 *     node n1 ─ eth0 .11 ══ p11 ┤
 *     node n2 ─ eth0 .12 ══ p12 ┘
 */
export interface NodeNetwork {
  /** N; also in the name of everything that the cluster has in the kernel. */
  readonly number: number;
}

/** Kept namespaces, one directory for each cluster. */
export const RUN_DIRECTORY = '/run/cluster-mini';
const FIRST_HOST = 11;
const LAST_HOST = 250;
export const LAST_NETWORK = 250;

export function hostAddress({ number }: NodeNetwork): string {
  return `198.18.${number}.1`;
}

export function switchAddress({ number }: NodeNetwork): string {
  return `198.18.${number}.254`;
}

/** The lowest free node address. */
export function nextAddress({ number }: NodeNetwork, taken: readonly string[]): string {
  for (let host = FIRST_HOST; host <= LAST_HOST; host++) {
    const address = `198.18.${number}.${host}`;
    if (!taken.includes(address)) return address;
  }
  throw new LocalMachineError(
    'localmachines-no-network',
    `choosing an address in 198.18.${number}.0/24: all taken`,
  );
}

/** Numbers whose network the host already routes somewhere, from `ip -j -4 route show table all`. */
export function routedNumbers(routesJson: string): ReadonlySet<number> {
  const routes = JSON.parse(routesJson) as readonly { readonly dst?: string }[];
  const numbers = routes.flatMap(({ dst }) => {
    const match = /^198\.18\.(\d+)\./.exec(dst ?? '');
    return match?.[1] === undefined ? [] : [Number(match[1])];
  });
  return new Set(numbers);
}

export function runDirectory({ number }: NodeNetwork): string {
  return `${RUN_DIRECTORY}/${linkName(number)}`;
}

/** The kept network namespace of a node, or of the switch when no node is named. */
export function namespaceFile(network: NodeNetwork, node: string | undefined): string {
  return `${runDirectory(network)}/${node === undefined ? 'switch' : `node-${node}`}`;
}

/**
 * The link address of whoever has this IP address: locally administered (IEEE 802 §8.4) and the same for ever, so that
 * neighbours that remember it are right after a power cycle too. A made-up one each time would leave them sending to a
 * machine that is no more, for as long as their kernels trust what they know.
 */
export function linkAddress(address: string): string {
  const last = address.split('.').map((byte) => Number(byte).toString(16).padStart(2, '0'));
  return `02:63:${last.join(':')}`;
}

/** The commands that make the switch, in a namespace that exists. */
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
    // Forwarding to "unreachable" answers at once; without it packets to elsewhere would vanish and callers hang.
    [...inside, 'ip', 'route', 'add', 'unreachable', 'default'],
    [...inside, 'sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward'],
    // prettier-ignore
    ['ip', 'link', 'add', link, 'address', linkAddress(hostAddress(network)), 'type', 'veth', 'peer', 'name', 'host', 'netns', namespace],
    [...inside, 'ip', 'link', 'set', 'host', 'master', 'sw', 'up'],
    ['ip', 'address', 'add', `${hostAddress(network)}/24`, 'dev', link],
    ['ip', 'link', 'set', link, 'up'],
  ];
}

/** The commands that plug a node in, in a namespace that exists. */
export function nodeCommands(
  network: NodeNetwork,
  node: AttachedNode,
): readonly (readonly [string, ...string[]])[] {
  const namespace = namespaceFile(network, node.name);
  const port = portName(node.address);
  const inside = ['nsenter', `--net=${namespace}`, '--'] as const;
  const atSwitch = ['nsenter', `--net=${namespaceFile(network, undefined)}`, '--'] as const;
  return [
    // prettier-ignore
    [...inside, 'ip', 'link', 'add', 'eth0', 'address', linkAddress(node.address), 'type', 'veth', 'peer', 'name', port, 'netns', namespaceFile(network, undefined)],
    [...inside, 'ip', 'link', 'set', 'lo', 'up'],
    [...inside, 'ip', 'address', 'add', `${node.address}/24`, 'dev', 'eth0'],
    [...inside, 'ip', 'link', 'set', 'eth0', 'up'],
    [...inside, 'ip', 'route', 'add', 'default', 'via', switchAddress(network)],
    [...atSwitch, 'ip', 'link', 'set', port, 'master', 'sw', 'up'],
  ];
}

/** The node's end at the switch: taking it down there is a pulled cable. */
export function portName(address: string): string {
  return `p${address.split('.')[3] ?? ''}`;
}

/** Makes the switch unless it is there. A half-made one is made again. */
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
  await makeNamespace(host, network, undefined, signal);
  await runPlan(host, switchCommands(network), signal);
  await host.files.writeAtomic(complete, '');
}

/** A fresh namespace with the node's cable: nothing of an earlier start survives in it. */
export async function connectNode(
  host: HostPorts,
  network: NodeNetwork,
  node: AttachedNode,
  signal: AbortSignal,
): Promise<void> {
  await disconnectNode(host, network, node, signal);
  await makeNamespace(host, network, node.name, signal);
  await runPlan(host, nodeCommands(network, node), signal);
}

/** Takes the node's namespace away with all that is in it; fine when there is none. */
export async function disconnectNode(
  host: HostPorts,
  network: NodeNetwork,
  node: AttachedNode,
  signal: AbortSignal,
): Promise<void> {
  await removeNamespace(host, network, node.name, signal);
  // The kernel ends a namespace in its own time; the cable must not linger at the switch until then.
  const atSwitch = ['nsenter', `--net=${namespaceFile(network, undefined)}`, '--'] as const;
  const argv = [...atSwitch, 'ip', 'link', 'delete', portName(node.address)] as const;
  await host.commands.run({ argv: [...argv], okExitCodes: [0, 1], signal });
}

/** Takes the whole network away: namespaces, links, directory. Fine when half of it or none is there. */
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

async function makeNamespace(
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

/** What the network has to know of a node. */
export interface AttachedNode {
  readonly name: string;
  readonly address: string;
}
