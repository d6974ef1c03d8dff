import { HOUR_MS, MINUTE_MS, type Clock } from '../../../internal/clock/index.ts';
import type { ContentVerdict } from '../../../internal/doctor/index.ts';
import { isAbort } from '../../../internal/errors/index.ts';
import type { EtcdClient } from '../../../internal/etcd/index.ts';
import type { Runnable, Scope } from '../../../internal/supervisor/index.ts';
import { ETCD_NAMES, type EtcdName } from '../etcd-instances.ts';
import { compareContent, type ComparedEtcd } from './compare-content.ts';

/** How often this control plane looks whether a comparison is due. The first one is made after this time. */
const LOOK_MS = 5 * MINUTE_MS;
/** A comparison reads the whole database of each member (see `compareContent`). */
const COMPARE_MS = HOUR_MS;
const ASK_MS = 5_000;

/** What this control plane knows about the content of the members of one etcd cluster. */
export interface EtcdContent {
  /** Since when this control plane is ready to compare. */
  readonly sinceMs: number;
  /** The last comparison; undefined before the first one. */
  readonly compared: (ContentVerdict & { readonly atMs: number }) | undefined;
  /** Whether the member of this control plane was the leader at the last look: only then is the comparison the newest one. */
  readonly isLeader: boolean;
}

/** Ports (injected dependencies) of the monitor. */
export interface ContentMonitorPorts {
  readonly clock: Clock;
  /** Clients of the local members as the root user; undefined while this node runs no etcd. */
  readonly members: () => Readonly<Record<EtcdName, Pick<EtcdClient, 'members' | 'maintenance'>>> | undefined;
  /** Connects to another member, "host:port", as the root user. */
  readonly connect: (name: EtcdName, endpoint: string) => ReturnType<ComparedEtcd['connect']>;
}

interface Known extends EtcdContent {
  /** The IDs of the members that were compared. A node that leaves and joins again has a new one. */
  readonly comparedIds: string;
  readonly nextMs: number;
}

/**
 * Compares the members of both etcd clusters every hour, on the control plane whose member is the leader: with access control,
 * only etcd's root user may ask for hashes, and curators have no credential for the Kubernetes etcd at all. Compares
 * also after the members have changed, so that a member that was replaced does not count as different for another hour.
 */
export class ContentMonitor {
  readonly #ports: ContentMonitorPorts;
  readonly #known = new Map<EtcdName, Known>();

  constructor(ports: ContentMonitorPorts) {
    this.#ports = ports;
  }

  /** To be called with each heartbeat. Undefined while this node runs no etcd. */
  contents(): Readonly<Record<EtcdName, EtcdContent>> | undefined {
    if (this.#ports.members() === undefined) {
      this.#known.clear();
      return undefined;
    }
    return { state: this.#of('state'), kubernetes: this.#of('kubernetes') };
  }

  /** Compares until its signal fires, one etcd after the other. */
  readonly run: Runnable = async (scope) => {
    scope.healthy();
    scope.waiting('next comparison of etcd members');
    for (;;) {
      await this.#ports.clock.sleep(LOOK_MS, scope.signal);
      for (const name of ETCD_NAMES) await this.#look(name, scope);
    }
  };

  #of(name: EtcdName): Known {
    const known = this.#known.get(name) ?? {
      ...{ sinceMs: this.#ports.clock.nowMs(), compared: undefined, isLeader: false },
      ...{ comparedIds: '', nextMs: -Infinity },
    };
    this.#known.set(name, known);
    return known;
  }

  /** A member that does not answer is reported by other parts; here it is only compared later. */
  async #look(name: EtcdName, { signal, log }: Scope): Promise<void> {
    const own = this.#ports.members()?.[name];
    if (own === undefined) return;
    try {
      await this.#compareIfDue(name, own, signal);
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      log.info('comparing the members of etcd failed, trying again later', { etcd: name, error });
    }
  }

  async #compareIfDue(
    name: EtcdName,
    own: Pick<EtcdClient, 'members' | 'maintenance'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, connect } = this.#ports;
    const call = { signal, timeoutMs: ASK_MS };
    const { memberId, leaderId } = await own.maintenance.status(call);
    const isLeader = memberId === leaderId;
    const known = { ...this.#of(name), isLeader };
    this.#known.set(name, known);
    if (!isLeader) return;
    const voters = (await own.members.list(call)).filter(({ isLearner }) => !isLearner);
    const comparedIds = voters
      .map(({ id }) => id.toString(16))
      .toSorted()
      .join();
    if (clock.monotonicMs() < known.nextMs && comparedIds === known.comparedIds) return;
    // Set before the comparison: one that fails reads the databases too, so it is not repeated earlier.
    const due = { ...known, comparedIds, nextMs: clock.monotonicMs() + COMPARE_MS };
    this.#known.set(name, due);
    if (voters.length < 2) {
      this.#known.set(name, { ...due, compared: undefined });
      return;
    }
    const etcd = { own, ownId: memberId, voters, clock };
    const verdict = await compareContent({ ...etcd, connect: (endpoint) => connect(name, endpoint) }, signal);
    this.#known.set(name, { ...due, compared: { ...verdict, atMs: clock.nowMs() } });
  }
}
