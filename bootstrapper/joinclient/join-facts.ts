import type { MessageInitShape } from '@bufbuild/protobuf';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { CLOCK_TOLERANCE_MS } from '../../internal/pki/index.ts';
import type { FactSchema } from '../../joinservice/joinproto/gen/join_pb.js';
import { joinClientErrors, type JoinClientError } from './errors.ts';
import type { VerifiedCluster } from './verify-cluster.ts';

const MAX_FACTS = 16;
const MAX_TEXT = 256;

type Fact = MessageInitShape<typeof FactSchema>;

/** What a machine found on its way, newest of each kind, for the trace that operators read (`cluster explain`). */
export class JoinFacts {
  readonly #nowMs: () => number;
  readonly #facts = new Map<string, Fact>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  recordReached(endpoint: string, { serverId, clockOffsetMs }: VerifiedCluster): void {
    this.#note(`path ${endpoint}`, { outcome: 'pass', expected: 'an answer', actual: serverId });
    this.#note(`owner ${endpoint}`, {
      outcome: 'pass',
      expected: 'a provisioned key',
      actual: 'signed by one',
    });
    const isNear = Math.abs(clockOffsetMs) <= CLOCK_TOLERANCE_MS;
    this.#note('clock', {
      outcome: isNear ? 'pass' : 'fail',
      expected: '±300 s',
      actual: `${Math.round(clockOffsetMs / 1000)} s`,
      ...(isNear ? {} : { fix: joinClientErrors['joinclient-clock-off'].fix, code: 'joinclient-clock-off' }),
    });
  }

  recordFailure(endpoint: string, error: unknown): void {
    const coded = findCoded(error);
    this.#note(`path ${endpoint}`, {
      outcome: 'fail',
      expected: 'an answer',
      actual: describeError(error),
      fix: coded?.fix ?? '',
      code: coded?.code ?? 'internal',
    });
  }

  /** What the name of an endpoint means here. */
  recordAddresses(host: string, addresses: readonly string[]): void {
    this.#note(`dns ${host}`, { outcome: 'pass', expected: 'an address', actual: addresses.join(', ') });
  }

  recordLookupFailure(host: string, error: JoinClientError): void {
    const { fix, code } = error;
    this.#note(`dns ${host}`, {
      outcome: 'fail',
      expected: 'an address',
      actual: describeError(error),
      fix,
      code,
    });
  }

  /** An endpoint that is written as an address. */
  recordNoNameNeeded(): void {
    this.#note('dns', { outcome: 'pass', expected: 'no name', actual: 'endpoints are addresses' });
  }

  /** Proxies that are configured on this machine: whoever set one expects it to be used. */
  recordProxies(proxies: readonly string[]): void {
    this.#note(
      'proxy',
      proxies.length === 0
        ? { outcome: 'pass', expected: 'none', actual: 'none is configured, and none would be used' }
        : {
            outcome: 'warn',
            expected: 'none',
            actual: `${proxies.join(', ')}: it is not used`,
            fix: 'Nothing where control planes can be reached without it: machines talk to them directly. Otherwise let this machine reach port 9090 of theirs past the proxy.',
          },
    );
  }

  /** Oldest first; what is too much goes from the beginning. */
  list(): Fact[] {
    return [...this.#facts.values()].slice(-MAX_FACTS);
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
