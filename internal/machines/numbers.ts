import type { MachineHost } from './host.ts';
import { output, readText } from './host.ts';
import { MachinesError } from './errors.ts';
import { linkName } from './names.ts';
import { LAST_NETWORK, routedNumbers, type NodeNetwork } from './network.ts';

/** Who holds which number, for all users and data folders of this machine; outlives a reboot of it. */
export const NUMBERS_FOLDER = '/var/lib/cluster-mini';

/** The lowest number that no cluster holds and whose network the host does not route yet. */
export function chooseNumber(taken: ReadonlySet<number>, routed: ReadonlySet<number>): number {
  for (let number = 1; number <= LAST_NETWORK; number++) {
    if (!taken.has(number) && !routed.has(number)) return number;
  }
  throw new MachinesError('machines-no-network', 'choosing a node network in 198.18.0.0/16: none is free');
}

/** Claims a number for the cluster whose data lie in `folder`; the one it already holds, if it does. */
export async function claimNumber(
  host: MachineHost,
  folder: string,
  signal: AbortSignal,
): Promise<NodeNetwork> {
  const claimed = await readClaims(host);
  for (const [number, owner] of claimed) if (owner === folder) return { number };
  const routed = routedNumbers(
    await output(host, ['ip', '-j', '-4', 'route', 'show', 'table', 'all'], signal),
  );
  const taken = new Set(claimed.keys());
  await host.files.makeDirectory(NUMBERS_FOLDER);
  for (;;) {
    const number = chooseNumber(taken, routed);
    if (await host.files.createExclusive(claimFile(number), folder)) return { number };
    taken.add(number); // somebody was quicker
  }
}

/** The number that the cluster in `folder` holds. */
export async function findNumber(host: MachineHost, folder: string): Promise<NodeNetwork | undefined> {
  for (const [number, owner] of await readClaims(host)) if (owner === folder) return { number };
  return undefined;
}

export async function releaseNumber(host: MachineHost, network: NodeNetwork): Promise<void> {
  await host.files.remove(claimFile(network.number));
  if ((await host.files.list(NUMBERS_FOLDER)).length === 0) await host.files.remove(NUMBERS_FOLDER);
}

/** The data folder of each number's holder. */
export async function readClaims(host: MachineHost): Promise<ReadonlyMap<number, string>> {
  const claims = new Map<number, string>();
  for (const name of await host.files.list(NUMBERS_FOLDER)) {
    const number = /^clu(\d+)$/.exec(name)?.[1];
    if (number === undefined) continue;
    claims.set(Number(number), (await readText(host, `${NUMBERS_FOLDER}/${name}`)) ?? '');
  }
  return claims;
}

function claimFile(number: number): string {
  return `${NUMBERS_FOLDER}/${linkName(number)}`;
}
