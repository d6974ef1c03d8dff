import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { withTimeout } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { hostOf } from '../../internal/endpoint/index.ts';
import { JoinClientError } from './errors.ts';
import type { JoinFacts } from './join-facts.ts';

const LOOKUP_MS = 5_000;

/** Resolves a host name to addresses; rejects when there are none. */
export type ResolveName = (host: string) => Promise<readonly string[]>;

export const resolveWithSystem: ResolveName = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address);

/**
 * Records the addresses of an endpoint's name. Never rejects, because the connection itself fails when the
 * name is unknown.
 */
export async function recordNameLookup(
  endpoint: string,
  options: {
    readonly facts: JoinFacts;
    readonly lookUp: ResolveName;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const host = hostOf(endpoint);
  const { facts, lookUp, clock, signal } = options;
  if (isIP(host) !== 0) return facts.recordNoNameNeeded();
  const limit = { what: `resolving ${host}`, ms: LOOKUP_MS, clock, signal };
  try {
    facts.recordAddresses(host, await withTimeout(limit, () => lookUp(host)));
  } catch (cause) {
    if (signal.aborted) return;
    facts.recordLookupFailure(
      host,
      new JoinClientError('joinclient-name-unknown', `host name ${host} not found`, { cause }),
    );
  }
}
