import { findCoded } from '../../internal/errors/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import { refuseOtherAddress } from './preflight.ts';

/** Looking costs one call of the kernel. */
const LOOK_MS = 2_000;
const NONE = 'an address: this machine has none that other machines could use';

export interface OwnAddressOptions {
  /** The address that this machine's certificates and its etcd are made for; undefined while it is bound to nobody. */
  readonly boundAddress: () => string | undefined;
  /** Those it has now. */
  readonly addresses: () => readonly string[];
  readonly isInitInProgress: () => boolean;
  readonly phases: PhaseReporter;
  readonly clock: Clock;
  /** Ends the pauses of what failed without the address. */
  readonly retryNow: () => void;
}

/**
 * Sees an address go that this machine is bound to, and says so at once: what serves there would only be slow to answer.
 * Another address is never taken in its place. An owner who follows an init is told as a failure of its checks.
 */
export function ownAddressRunnable(options: OwnAddressOptions): Runnable {
  const { boundAddress: bound, addresses, clock } = options;
  let isLost = false;
  return async (scope) => {
    scope.waiting('the address of this machine');
    for (let isHealthy = false; ; isHealthy = true) {
      await look(scope);
      if (!isHealthy) scope.healthy();
      scope.waiting(bound() === undefined && addresses().length === 0 ? NONE : undefined);
      await clock.sleep(LOOK_MS, scope.signal);
    }
  };

  /** Fails while the address is gone. The next life looks again: after a pause, or when somebody asks to hurry. */
  async function look({ log }: Scope): Promise<void> {
    const address = bound();
    if (address === undefined || (addresses().includes(address) && !isLost)) return;
    const wasLost = isLost;
    isLost = true;
    try {
      const check = async (): Promise<void> => refuseOtherAddress(address, addresses());
      await (options.isInitInProgress() ? options.phases.run('preflight', check) : check());
    } catch (error) {
      if (!wasLost)
        log.error('this machine has lost its address', { address, error, fix: findCoded(error)?.fix });
      throw error;
    }
    isLost = false;
    log.info('this machine has its address again', { address });
    options.retryNow();
  }
}

/** A machine without an address would be admitted with none: it asks nobody until it has one. */
export async function untilAddress(
  { hasOne, clock, log }: { readonly hasOne: () => boolean; readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  if (hasOne()) return;
  log.warn('this machine has no address that other machines could use: it asks no cluster until it has one');
  do await clock.sleep(LOOK_MS, signal);
  while (!hasOne());
  log.info('this machine has an address');
}
