import { findCoded } from '../../internal/errors/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import type { PhaseReporter } from '../phases/index.ts';
import { refuseOtherAddress } from './preflight.ts';

/** Reading the addresses of a node with many pods takes half a millisecond, so a shorter interval would be a tenth of an idle agent's work. */
const CHECK_MS = 5_000;
/** A machine that waits for its first address does nothing else. */
const FIRST_CHECK_MS = 2_000;
const NO_ADDRESS = 'an address that other machines can reach';

/** Ports (injected dependencies) of the address check. */
export interface OwnAddressOptions {
  /** The address in this machine's certificates and in its etcd; undefined while it belongs to no cluster. */
  readonly boundAddress: () => string | undefined;
  /** The addresses that the machine has now. */
  readonly addresses: () => readonly string[];
  readonly isInitInProgress: () => boolean;
  readonly phases: PhaseReporter;
  readonly clock: Clock;
  /** Retries the work that failed without the address. */
  readonly retryNow: () => void;
}

/**
 * Reports within seconds when the machine loses the address that its certificates are made for; without this, its services would only
 * time out. The agent never switches to another address. During an init, the owner sees the loss as a failed preflight.
 */
export function ownAddressRunnable(options: OwnAddressOptions): Runnable {
  const { boundAddress: bound, addresses, clock } = options;
  let isLost = false;
  return async (scope) => {
    scope.waiting('own address');
    for (let isHealthy = false; ; isHealthy = true) {
      await check(scope);
      if (!isHealthy) scope.healthy();
      scope.waiting(bound() === undefined && addresses().length === 0 ? NO_ADDRESS : undefined);
      await clock.sleep(CHECK_MS, scope.signal);
    }
  };

  /** Throws while the address is missing. The supervisor restarts this runnable after a pause, or when asked to retry now. */
  async function check({ log }: Scope): Promise<void> {
    const address = bound();
    if (address === undefined || (addresses().includes(address) && !isLost)) return;
    const wasLost = isLost;
    isLost = true;
    try {
      const refuse = async (): Promise<void> => refuseOtherAddress(address, addresses());
      await (options.isInitInProgress() ? options.phases.run('preflight', refuse) : refuse());
    } catch (error) {
      if (!wasLost) log.error('own address lost', { address, error, fix: findCoded(error)?.fix });
      throw error;
    }
    isLost = false;
    log.info('own address restored', { address });
    options.retryNow();
  }
}

/**
 * Resolves when this machine has an address. Without one, the machine would join a cluster that cannot reach
 * it.
 */
export async function untilAddress(
  { hasOne, clock, log }: { readonly hasOne: () => boolean } & Pick<SystemPorts, 'clock' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  if (hasOne()) return;
  log.warn('no address that other machines can reach, waiting before joining');
  do await clock.sleep(FIRST_CHECK_MS, signal);
  while (!hasOne());
  log.info('address found');
}
