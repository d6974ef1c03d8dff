import type { MessageInitShape } from '@bufbuild/protobuf';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { CLOCK_TOLERANCE_MS } from '../../internal/clock/index.ts';
import { MACHINE_CHECKS } from '../../joinservice/joinproto/index.ts';
import type { FactSchema } from '../../joinservice/joinproto/gen/join_pb.js';
import { joinClientErrors, type JoinClientError } from './errors.ts';
import type { VerifiedCluster } from './verify-cluster.ts';

const MAX_FACTS = 16;
const MAX_TEXT = 256;
const PROXY_FIX =
  'Nothing to do if control planes are reachable without the proxy: machines connect to them directly. Otherwise allow this machine to reach their port 9090 without the proxy.';

type Fact = MessageInitShape<typeof FactSchema>;

/** Observations of a machine while it joins, the newest of each kind. `cluster explain` shows them. */
export class JoinFacts {
  readonly #nowMs: () => number;
  readonly #facts = new Map<string, Fact>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  recordReached(endpoint: string, { serverId, clockOffsetMs }: VerifiedCluster): void {
    this.#pass(`path ${endpoint}`, 'a response', serverId);
    this.#pass(`owner ${endpoint}`, 'a provisioned owner key', 'cluster signed by a trusted owner');
    const isNear = Math.abs(clockOffsetMs) <= CLOCK_TOLERANCE_MS;
    this.#note('clock', {
      outcome: isNear ? 'pass' : 'fail',
      expected: '±5m',
      actual: `${Math.round(clockOffsetMs / 1000)} s`,
      ...(isNear ? {} : { fix: joinClientErrors['joinclient-clock-off'].fix, code: 'joinclient-clock-off' }),
    });
  }

  recordFailure(endpoint: string, error: unknown): void {
    this.#fail(`path ${endpoint}`, 'a response', error);
  }

  /** Records whether the checks of this machine passed. @param error the failed check */
  recordChecks(error: unknown): void {
    if (error === undefined) this.#pass(MACHINE_CHECKS, 'all passed', 'all passed');
    else this.#fail(MACHINE_CHECKS, 'all passed', error);
  }

  /** Records the addresses to which this machine resolves the host name of an endpoint. */
  recordAddresses(host: string, addresses: readonly string[]): void {
    this.#pass(`dns ${host}`, 'an address', addresses.join(', '));
  }

  recordLookupFailure(host: string, error: JoinClientError): void {
    this.#fail(`dns ${host}`, 'an address', error);
  }

  /** Records that an endpoint needs no name lookup, because it is an address. */
  recordNoNameNeeded(): void {
    this.#pass('dns', 'no name needed', 'endpoints are addresses');
  }

  /** Records configured proxies, because an administrator may expect that they are used. */
  recordProxies(proxies: readonly string[]): void {
    if (proxies.length === 0) return this.#pass('proxy', 'none', 'none configured');
    const actual = `${proxies.join(', ')} (not used)`;
    this.#note('proxy', { outcome: 'warn', expected: 'none', actual, fix: PROXY_FIX });
  }

  /** Oldest first; above the limit, the oldest are left out. */
  list(): Fact[] {
    return [...this.#facts.values()].slice(-MAX_FACTS);
  }

  #pass(name: string, expected: string, actual: string): void {
    this.#note(name, { outcome: 'pass', expected, actual });
  }

  #fail(name: string, expected: string, error: unknown): void {
    const { fix = '', code = 'internal' } = findCoded(error) ?? {};
    this.#note(name, { outcome: 'fail', expected, actual: describeError(error), fix, code });
  }

  #note(name: string, fact: Omit<Fact, '$typeName' | 'name' | 'timeMs'>): void {
    this.#facts.delete(name);
    const { expected = '', actual = '', fix = '' } = fact;
    const texts = { name: cut(name), expected: cut(expected), actual: cut(actual), fix: cut(fix) };
    this.#facts.set(name, { ...fact, ...texts, timeMs: BigInt(this.#nowMs()) });
    for (const oldest of this.#facts.keys()) {
      if (this.#facts.size <= MAX_FACTS) break;
      this.#facts.delete(oldest);
    }
  }
}

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text;
}
