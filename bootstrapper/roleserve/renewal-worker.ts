import type { Clock } from '../../internal/clock/index.ts';
import { childSignal } from '../../internal/cleanup/index.ts';
import { map, type Readable, type Settable } from '../../internal/event/index.ts';
import { renewalTimeOf, type CertificateTimes } from '../../internal/pki/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { planRoleFetch } from './rolefetch-worker.ts';
import type { RoleSet } from './values.ts';

/** Wall clocks jump and files change: nobody sleeps past this without looking again. */
const LOOK_MS = 10 * 60_000;
/** Between two of a kind, so that a certificate that is due at once does not make a busy loop. */
const SHORTEST_MS = 1_000;

/** Certificates that are renewed together, and how. */
export interface Renewal {
  /** For the log. */
  readonly name: string;
  /** Of all of them; one that can't be read is due. */
  times(signal: AbortSignal): Promise<readonly CertificateTimes[]>;
  /** On disk, and taken by those who use them, when it resolves; the membership where it has changed. */
  renew(signal: AbortSignal): Promise<Membership | undefined>;
}

export interface RenewalOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    /** New roles may need more than there is. */
    readonly localRoles: Readable<RoleSet | undefined>;
  };
  readonly writes: { readonly clusterMembership: Settable<Membership | undefined> };
  /** One after the other, never two at a time. */
  readonly renewals: readonly Renewal[];
  readonly clock: Clock;
}

/** Renews what this node proves itself with, for as long as it is a member. */
export function renewalWorker(options: RenewalOptions): Runnable {
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planRoleFetch(membership),
    start: (scope) => {
      scope.run('watch', (watch) => keepFresh(options, watch));
      return Promise.resolve();
    },
  });
}

async function keepFresh({ reads, renewals, writes, clock }: RenewalOptions, scope: Scope): Promise<void> {
  scope.healthy();
  using roles = reads.localRoles.watch();
  await roles.next(scope.signal);
  for (;;) {
    let nextMs = clock.nowMs() + LOOK_MS;
    const failures: unknown[] = [];
    for (const renewal of renewals) {
      try {
        nextMs = Math.min(nextMs, await renewIfDue(renewal, { writes, clock }, scope));
      } catch (error) {
        scope.signal.throwIfAborted();
        failures.push(error); // one that can't be renewed lets no other run out
      }
    }
    if (failures.length > 0) throw failures[0];
    scope.waiting(undefined);
    using pause = childSignal(scope.signal);
    const ends = [
      clock.sleep(Math.max(SHORTEST_MS, nextMs - clock.nowMs()), pause.signal),
      roles.next(pause.signal),
    ];
    await Promise.race(ends);
    pause.abort(new Error('the pause is over'));
    await Promise.allSettled(ends);
    scope.signal.throwIfAborted();
  }
}

/** Answers when to look at this one again. */
async function renewIfDue(
  renewal: Renewal,
  { writes, clock }: Pick<RenewalOptions, 'writes' | 'clock'>,
  scope: Scope,
): Promise<number> {
  const times = await renewal.times(scope.signal);
  const dueMs = Math.min(...times.map(renewalTimeOf), Infinity);
  if (dueMs > clock.nowMs()) return dueMs;
  scope.waiting(`new certificates: ${renewal.name}`);
  scope.log.info('certificates are due', { what: renewal.name, dueMs });
  const membership = await renewal.renew(scope.signal);
  if (membership !== undefined) writes.clusterMembership.set(membership);
  scope.log.info('certificates were renewed', { what: renewal.name });
  return clock.nowMs() + SHORTEST_MS;
}
