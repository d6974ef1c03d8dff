import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { mapConcurrently, withTimeout } from '../../internal/cleanup/index.ts';
import type { ClusterFacts } from '../../internal/doctor/index.ts';
import { hostOf, plainHost } from '../../internal/endpoint/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readPart } from '../cluster/index.ts';
import { AT_ONCE } from './ask-curators.ts';
import { plain } from './read-records.ts';

const LOOKUP_MS = 5_000;
const MAX_NAMES = 64;

/** Resolves the host names among these hosts, as the programs of this workstation do. */
export function askHostNames(
  context: CommandContext,
  hosts: readonly string[],
): Promise<NonNullable<ClusterFacts['hostNames']>> {
  const { signal, ports } = context;
  const names = [...new Set(hosts)].filter((host) => host !== '' && isIP(host) === 0).slice(0, MAX_NAMES);
  return mapConcurrently(names, AT_ONCE, async (name) => {
    const limit = { what: `resolving ${name}`, ms: LOOKUP_MS, clock: ports.clock, signal };
    const resolve = async () => {
      const found = await withTimeout(limit, () => lookup(name, { all: true }));
      return { addresses: found.slice(0, MAX_NAMES).map(({ address }) => address) };
    };
    return { name: printable(name), answer: plain(await readPart(context, resolve)) };
  });
}

/** The host of a URL or of "HOST:PORT"; empty if it has none. An IPv6 address is without its brackets. */
export function hostFrom(address: string): string {
  const host = URL.parse(address)?.hostname ?? '';
  return plainHost(host === '' ? hostOf(address) : host);
}
