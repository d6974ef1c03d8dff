import type { Clock } from '../../internal/clock/index.ts';
import type { EtcdClient } from '../../internal/etcd/index.ts';
import type { EtcdFacts } from './status-push-worker.ts';

/** How long the state of a healthy etcd is reused: the status is read every few seconds. */
const REUSE_MS = 20_000;
const ASK_MS = 2_000;
/** The size is rounded up to a 64th of the quota, because each change of a status is a write to the state etcd. */
const STEPS = 64;

/** Ports (injected dependencies) of the health check. */
export interface KubernetesEtcdPorts {
  /** Client of the local member with root credentials, while it runs. */
  readonly etcd: () => Pick<EtcdClient, 'members' | 'maintenance'> | undefined;
  /** Node ids of all control planes of the cluster. */
  readonly controlPlanes: () => readonly string[];
  readonly clock: Pick<Clock, 'monotonicMs'>;
}

/**
 * State of the Kubernetes etcd for the status of a control plane. Curators cannot read this etcd themselves.
 */
export class KubernetesEtcdHealth {
  readonly #ports: KubernetesEtcdPorts;
  #last: { readonly atMs: number; readonly facts: EtcdFacts } | undefined;

  constructor(ports: KubernetesEtcdPorts) {
    this.#ports = ports;
  }

  /**
   * undefined when no member runs here. If the member does not respond: no leader, and the last known
   * members.
   */
  async check(signal: AbortSignal): Promise<EtcdFacts | undefined> {
    const { clock, etcd } = this.#ports;
    const member = etcd();
    if (member === undefined) return (this.#last = undefined);
    const nowMs = clock.monotonicMs();
    if (this.#last !== undefined && nowMs - this.#last.atMs < REUSE_MS && this.#isSettled(this.#last.facts))
      return this.#last.facts;
    const facts = await this.#ask(member, signal);
    this.#last = { atMs: nowMs, facts };
    return facts;
  }

  async #ask(member: Pick<EtcdClient, 'members' | 'maintenance'>, signal: AbortSignal): Promise<EtcdFacts> {
    const call = { signal, timeoutMs: ASK_MS };
    try {
      const [{ dbSizeBytes, quotaBytes, leaderId, errors }, members] = await Promise.all([
        member.maintenance.status(call),
        member.members.list(call),
      ]);
      return {
        dbSizeBytes: roundedUp(dbSizeBytes, quotaBytes / STEPS),
        quotaBytes,
        hasLeader: leaderId !== 0n,
        isFull: errors.some((error) => error.includes('NOSPACE')),
        isCorrupt: errors.some((error) => error.includes('CORRUPT')),
        members: members.map(({ name, isLearner }) => ({ name, isLearner, isStarted: name !== '' })),
      };
    } catch {
      signal.throwIfAborted();
      const { dbSizeBytes = 0, quotaBytes = 0, members = [] } = this.#last?.facts ?? {};
      return { dbSizeBytes, quotaBytes, hasLeader: false, isFull: false, isCorrupt: false, members };
    }
  }

  /** Whether no change is expected, because the voters are exactly the control planes. */
  #isSettled({ hasLeader, members }: EtcdFacts): boolean {
    const voters = members.filter(({ isLearner }) => !isLearner).map(({ name }) => name);
    const wanted = this.#ports.controlPlanes();
    return (
      hasLeader && voters.length === members.length && voters.toSorted().join() === wanted.toSorted().join()
    );
  }
}

function roundedUp(value: number, step: number): number {
  return step > 0 ? Math.ceil(value / step) * step : value;
}
