import { Resolver } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { MINUTE_MS, type Clock } from '../../internal/clock/index.ts';

/** While the DNS answers, it is asked this often. */
const WELL_MS = 30_000;
const FAILING_MS = 10_000;
/** The DNS moves to another node within this time, so a shorter failure is no reason to worry. */
const GRACE_MS = MINUTE_MS;
const TIMEOUT_MS = 2_000;
const TRIES = 2;

/** Whether the DNS of the cluster answers this node. */
export interface NameLookup {
  /** Why not: "10.96.0.10 does not answer". Undefined if it answers. */
  readonly failure: string | undefined;
}

/** Ports (injected dependencies) of `NameLookupProbe`. */
export interface NameLookupPorts {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  /** Asks a DNS server for the address of a name. @throws an error of `node:dns` */
  readonly lookUp: (server: string, name: string, signal: AbortSignal) => Promise<void>;
}

/**
 * Asks the DNS of the cluster for a name, as pods on this node do: through kube-proxy and the network of pods. Ready pods of
 * CoreDNS do not prove that. A lookup can take seconds, so that nobody waits for it.
 */
export class NameLookupProbe {
  readonly #ports: NameLookupPorts;
  readonly #name: string;
  #startedMs = -Infinity;
  #isRunning = false;
  #last: { readonly failure: string | undefined; readonly sinceMs: number } | undefined;

  /** @param name a name that the DNS of every cluster knows */
  constructor(ports: NameLookupPorts, name: string) {
    this.#ports = ports;
    this.#name = name;
  }

  /**
   * To be called with each heartbeat. Starts a lookup if it is time for one.
   * @param server IP address of the DNS; undefined on a node whose pods have no network
   * @returns the result of the lookups that have ended; undefined before the first one
   */
  check(server: string | undefined, signal: AbortSignal): NameLookup | undefined {
    if (server === undefined) {
      this.#last = undefined;
      return undefined;
    }
    const nowMs = this.#ports.clock.monotonicMs();
    const everyMs = this.#last?.failure === undefined ? WELL_MS : FAILING_MS;
    if (!this.#isRunning && nowMs - this.#startedMs >= everyMs) {
      this.#startedMs = nowMs;
      void this.#lookUp(server, signal);
    }
    if (this.#last === undefined) return undefined;
    const { failure, sinceMs } = this.#last;
    return { failure: nowMs - sinceMs >= GRACE_MS ? failure : undefined };
  }

  async #lookUp(server: string, signal: AbortSignal): Promise<void> {
    this.#isRunning = true;
    const failure = await this.#ports.lookUp(server, this.#name, signal).then(
      () => undefined,
      (error: unknown) => describeFailure(server, error),
    );
    this.#isRunning = false;
    if (signal.aborted) return; // the result says nothing about the DNS
    const isFailing = this.#last?.failure !== undefined;
    const sinceMs =
      failure !== undefined && isFailing ? (this.#last?.sinceMs ?? 0) : this.#ports.clock.monotonicMs();
    this.#last = { failure, sinceMs };
  }
}

const ANSWERS: Readonly<Record<string, string>> = {
  ETIMEOUT: 'does not answer',
  ECONNREFUSED: 'refuses questions: no pod of CoreDNS is behind it, or kube-proxy does not know it',
  ENOTFOUND: 'does not know the API server of the cluster',
};

function describeFailure(server: string, error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  return `${server} ${ANSWERS[code] ?? `answers with an error (${code})`}`;
}

/** Asks a DNS server over UDP. @param server an IP address, or one with a port (IPv6 in brackets) @throws an error of `node:dns` */
export async function lookUpName(server: string, name: string, signal: AbortSignal): Promise<void> {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  resolver.setServers([server]);
  const cancel = (): void => resolver.cancel();
  signal.addEventListener('abort', cancel);
  try {
    // The name has an address of the family of the first network of services only, as the DNS has.
    const hasIpv6 = isIPv6(server) || server.startsWith('[');
    await (hasIpv6 ? resolver.resolve6(name) : resolver.resolve4(name));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}
