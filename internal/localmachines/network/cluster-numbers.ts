import { type HostPorts, output } from '../host/host-ports.ts';
import { readText } from '../../file/index.ts';
import { LocalMachineError } from '../errors.ts';
import { linkName } from './names.ts';
import { LAST_NETWORK, routedNumbers, type NodeNetwork } from './cluster-network.ts';

/**
 * The directory that records which cluster has claimed which network number, for all users of this machine. It survives
 * reboots.
 */
export const NUMBERS_DIRECTORY = '/var/lib/cluster-mini';

/** The lowest number that no cluster has and to whose network the host has no route. */
export function chooseNumber(taken: ReadonlySet<number>, routed: ReadonlySet<number>): number {
  for (let number = 1; number <= LAST_NETWORK; number++) {
    if (!taken.has(number) && !routed.has(number)) return number;
  }
  throw new LocalMachineError('localmachines-no-network', 'no free network in 198.18.0.0/16');
}

/**
 * Claims a number for the cluster whose data are in `directory`, or returns the number that the cluster has already.
 */
export async function claimNumber(
  host: HostPorts,
  directory: string,
  signal: AbortSignal,
): Promise<NodeNetwork> {
  const claimed = await readClaims(host);
  for (const [number, owner] of claimed) if (owner === directory) return { number };
  const routed = routedNumbers(
    await output(host, ['ip', '-j', '-4', 'route', 'show', 'table', 'all'], signal),
  );
  const taken = new Set(claimed.keys());
  await host.files.makeDirectory(NUMBERS_DIRECTORY);
  for (;;) {
    const number = chooseNumber(taken, routed);
    if (await host.files.createExclusive(claimFile(number), directory)) return { number };
    taken.add(number); // another process has claimed this number
  }
}

/** The number of the cluster whose data are in `directory`. */
export async function findNumber(host: HostPorts, directory: string): Promise<NodeNetwork | undefined> {
  for (const [number, owner] of await readClaims(host)) if (owner === directory) return { number };
  return undefined;
}

/** Frees the number of a removed cluster. */
export async function releaseNumber(host: HostPorts, network: NodeNetwork): Promise<void> {
  await host.files.remove(claimFile(network.number));
  if ((await host.files.list(NUMBERS_DIRECTORY)).length === 0) await host.files.remove(NUMBERS_DIRECTORY);
}

/** The claimed network number of each local cluster, with the data directory of that cluster. */
export async function readClaims(host: HostPorts): Promise<ReadonlyMap<number, string>> {
  const claims = new Map<number, string>();
  for (const name of await host.files.list(NUMBERS_DIRECTORY)) {
    const number = /^clu(\d+)$/.exec(name)?.[1];
    if (number === undefined) continue;
    claims.set(Number(number), (await readText(host.files, `${NUMBERS_DIRECTORY}/${name}`)) ?? '');
  }
  return claims;
}

function claimFile(number: number): string {
  return `${NUMBERS_DIRECTORY}/${linkName(number)}`;
}
