import type { Clock } from '../../internal/clock/index.ts';
import { childSignal } from '../../internal/cleanup/index.ts';
import { currentValue, EventValue, type Readable, type Watcher } from '../../internal/event/index.ts';
import { type CertificateTimes, renewalTimeOf } from '../../internal/pki/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { memberWorker, type RoleValues } from '../roleserve/index.ts';

/** Longest time between two checks, because wall clocks jump and files change. */
const CHECK_MS = 10 * 60_000;
/** Shortest time between two renewals, so that a certificate that is always due causes no busy loop. */
const SHORTEST_MS = 1_000;

/** Installs a prepared renewal and restarts what uses it. */
export type ApplyRenewal = (signal: AbortSignal) => Promise<void>;

/** A group of certificates that are renewed together. */
export interface Renewal {
  /** Name of the group in logs. */
  readonly name: string;
  /** Validity of each certificate. A certificate that cannot be read is due. */
  certificateTimes(signal: AbortSignal): Promise<readonly CertificateTimes[]>;
  /** Whether the group is due now, whatever its validity. */
  readonly isDue?: Readable<boolean>;
  /** What the last renewal has found to be wrong; shown in the status until another renewal finds it right. */
  readonly problem?: () => string | undefined;
  /**
   * Requests the certificates of this renewal from other nodes. This may take days and changes nothing on this node, so
   * other renewals can run in the meantime. The returned function applies the renewal. It is called once, and never
   * while another renewal is applied.
   */
  prepare(signal: AbortSignal): Promise<ApplyRenewal>;
}

/** Inputs of the renewal worker. */
export interface RenewalOptions {
  /** `localRoles`: new roles may need more certificates. */
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'localRoles'>;
  /** Groups of certificates by the name of their runnable. */
  readonly renewals: Readonly<Record<string, Renewal>>;
  readonly clock: Clock;
}

/**
 * Renews the certificates of a member. Each group has its own runnable, so that a failing or waiting group
 * delays no other.
 */
export function renewalWorker(options: RenewalOptions): Runnable {
  return memberWorker(options, (scope) => {
    const queue = new RenewalQueue();
    for (const [name, renewal] of Object.entries(options.renewals))
      scope.run(name, (each) => keepFresh({ ...options, name, renewal, queue }, each));
  });
}

type Parts = Pick<RenewalOptions, 'reads' | 'clock'> & {
  /** Name of the group's runnable. */
  readonly name: string;
  readonly renewal: Renewal;
  readonly queue: RenewalQueue;
};

async function keepFresh(parts: Parts, scope: Scope): Promise<void> {
  const { reads, clock, name, queue } = parts;
  scope.healthy();
  using roles = reads.localRoles.watch();
  using renewed = queue.renewed.watch();
  using due = (parts.renewal.isDue ?? new EventValue<boolean>()).watch();
  await roles.next(scope.signal);
  for (;;) {
    const nextMs = Math.min(clock.nowMs() + CHECK_MS, await renewIfDue(parts, scope));
    scope.waiting(parts.renewal.problem?.());
    using pause = childSignal(scope.signal);
    const ends = [
      clock.sleep(Math.max(SHORTEST_MS, nextMs - clock.nowMs()), pause.signal),
      roles.next(pause.signal),
      untilTrue(due, pause.signal),
      nextOfOthers(renewed, name, pause.signal),
    ];
    await Promise.race(ends);
    pause.abort(new Error('the pause is over'));
    await Promise.allSettled(ends);
    scope.signal.throwIfAborted();
  }
}

/**
 * Resolves when another group was renewed. That may affect this group: a kubelet, for example, serves the
 * certificate with which it was started.
 */
async function nextOfOthers(renewed: Watcher<string>, name: string, signal: AbortSignal): Promise<void> {
  while ((await renewed.next(signal)) === name);
}

async function untilTrue(watcher: Watcher<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await watcher.next(signal)));
}

/** Renews the group if it is due. Resolves to the time of the next check. */
async function renewIfDue({ name, renewal, queue, clock }: Parts, scope: Scope): Promise<number> {
  const times = await renewal.certificateTimes(scope.signal);
  const isDue = renewal.isDue !== undefined && currentValue(renewal.isDue) === true;
  const dueMs = isDue ? 0 : Math.min(...times.map(renewalTimeOf), Infinity);
  if (dueMs > clock.nowMs()) return dueMs;
  scope.waiting(`renewal of certificates: ${renewal.name}`);
  scope.log.info('certificates due for renewal', { what: renewal.name, dueMs });
  const install = await renewal.prepare(scope.signal);
  await queue.run(async () => {
    scope.signal.throwIfAborted();
    await install(scope.signal);
  });
  queue.renewed.set(name);
  scope.log.info('certificates renewed', { what: renewal.name });
  return clock.nowMs() + SHORTEST_MS;
}

/**
 * Activates renewed certificates one group after the other, because several groups restart the same programs.
 */
class RenewalQueue {
  /** Name of the group that was renewed last. */
  readonly renewed = new EventValue<string>();
  #last: Promise<unknown> = Promise.resolve();

  run(work: () => Promise<void>): Promise<void> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined); // the caller of the other installation gets its error
    return result;
  }
}
