import type { Clock } from '../../internal/clock/index.ts';
import { childSignal } from '../../internal/cleanup/index.ts';
import { EventValue, map, type Readable, type Watcher } from '../../internal/event/index.ts';
import { type CertificateTimes, renewalTimeOf } from '../../internal/pki/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { Membership } from '../membership/index.ts';
import { planForMember, type RoleSet } from '../roleserve/index.ts';

/** Wall clocks jump and files change: nobody sleeps past this without looking again. */
const LOOK_MS = 10 * 60_000;
/** Between two of a kind, so that a certificate that is due at once does not make a busy loop. */
const SHORTEST_MS = 1_000;

/** Puts into force what was prepared: on disk, and taken by those who use it, when it resolves; the membership where it has changed. */
export type ApplyRenewal = (signal: AbortSignal) => Promise<Membership | undefined>;

/** Certificates that are renewed together, and how. */
export interface Renewal {
  /** For the log. */
  readonly name: string;
  /** Of all of them; one that cannot be read is due. */
  certificateTimes(signal: AbortSignal): Promise<readonly CertificateTimes[]>;
  /**
   * Gets what only others can give. May take days while nobody can give it, and changes nothing here: whatever else is
   * due is renewed meanwhile. What it answers is called once, and one at a time with those of all others.
   */
  prepare(signal: AbortSignal): Promise<ApplyRenewal>;
}

export interface RenewalOptions {
  readonly reads: {
    readonly clusterMembership: Readable<Membership | undefined>;
    /** New roles may need more than there is. */
    readonly localRoles: Readable<RoleSet | undefined>;
  };
  /** Publishes a membership with a new certificate. */
  readonly onMembershipRenewed: (membership: Membership) => void;
  /** By the name of its runnable. */
  readonly renewals: Readonly<Record<string, Renewal>>;
  readonly clock: Clock;
}

/**
 * Renews what this node proves itself with, for as long as it is a member. Each renewal is a runnable of its own: one that
 * fails or waits lets no other run out.
 */
export function renewalWorker(options: RenewalOptions): Runnable {
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planForMember(membership),
    start: (scope) => {
      const turns = new Turns();
      for (const [name, renewal] of Object.entries(options.renewals))
        scope.run(name, (each) => keepFresh({ ...options, name, renewal, turns }, each));
      return Promise.resolve();
    },
  });
}

type Parts = Pick<RenewalOptions, 'reads' | 'onMembershipRenewed' | 'clock'> & {
  /** Of its runnable. */
  readonly name: string;
  readonly renewal: Renewal;
  readonly turns: Turns;
};

async function keepFresh(parts: Parts, scope: Scope): Promise<void> {
  const { reads, clock, name, turns } = parts;
  scope.healthy();
  using roles = reads.localRoles.watch();
  using renewed = turns.renewed.watch();
  await roles.next(scope.signal);
  for (;;) {
    const nextMs = Math.min(clock.nowMs() + LOOK_MS, await renewIfDue(parts, scope));
    scope.waiting(undefined);
    using pause = childSignal(scope.signal);
    const ends = [
      clock.sleep(Math.max(SHORTEST_MS, nextMs - clock.nowMs()), pause.signal),
      roles.next(pause.signal),
      nextOfOthers(renewed, name, pause.signal),
    ];
    await Promise.race(ends);
    pause.abort(new Error('the pause is over'));
    await Promise.allSettled(ends);
    scope.signal.throwIfAborted();
  }
}

/** What another one has put in place may have to be taken by those who use it: a kubelet shows what it was started with. */
async function nextOfOthers(renewed: Watcher<string>, name: string, signal: AbortSignal): Promise<void> {
  while ((await renewed.next(signal)) === name);
}

/** Answers when to look at this one again. */
async function renewIfDue(
  { name, renewal, turns, onMembershipRenewed, clock }: Parts,
  scope: Scope,
): Promise<number> {
  const times = await renewal.certificateTimes(scope.signal);
  const dueMs = Math.min(...times.map(renewalTimeOf), Infinity);
  if (dueMs > clock.nowMs()) return dueMs;
  scope.waiting(`new certificates: ${renewal.name}`);
  scope.log.info('certificates are due', { what: renewal.name, dueMs });
  const putInForce = await renewal.prepare(scope.signal);
  await turns.take(async () => {
    scope.signal.throwIfAborted();
    const membership = await putInForce(scope.signal);
    if (membership !== undefined) onMembershipRenewed(membership);
  });
  turns.renewed.set(name);
  scope.log.info('certificates were renewed', { what: renewal.name });
  return clock.nowMs() + SHORTEST_MS;
}

/** One after the other: several of them restart the same programs. */
class Turns {
  /** Whose turn ended last, by the name of its runnable. */
  readonly renewed = new EventValue<string>();
  #last: Promise<unknown> = Promise.resolve();

  take(work: () => Promise<void>): Promise<void> {
    const mine = this.#last.then(work);
    this.#last = mine.catch(() => undefined); // its own taker is told
    return mine;
  }
}
