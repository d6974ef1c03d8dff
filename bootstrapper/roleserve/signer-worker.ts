import type { Clock } from '../../internal/clock/index.ts';
import { map, type Readable } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { LocalControlPlane } from './values.ts';

/** Until the keys of Kubernetes are there: they are made after etcd's. */
const SOON_MS = 1_000;
/** Afterwards: keys that were replaced. */
const LATER_MS = 60_000;

/** The unit that signs; see bootstrapper/signerunit. */
export interface SignerDriver {
  /** Hands over what keys there are, and answers the names of those that are not. May be repeated. */
  start(signal: AbortSignal): Promise<readonly string[]>;
  stop(signal: AbortSignal): Promise<void>;
}

export interface SignerOptions {
  readonly reads: { readonly localControlPlane: Readable<LocalControlPlane | undefined> };
  readonly driver: SignerDriver;
  readonly clock: Clock;
}

/** The signer runs where a control plane does. */
export function signerWorker({ reads, driver, clock }: SignerOptions): Runnable {
  return launcher({
    input: map(reads.localControlPlane, (controlPlane) => ({ controlPlane })),
    plan: ({ controlPlane }, running) => planSigner(controlPlane, running),
    start: async (scope) => {
      await driver.start(scope.signal);
      scope.run('keys', (child) => followKeys(driver, clock, child));
    },
    retire: (scope) => driver.stop(scope.signal),
  });
}

export function planSigner(controlPlane: LocalControlPlane | undefined, running: boolean): Plan<true> {
  if (controlPlane === undefined) return { kind: 'stop', why: 'no control plane runs here' };
  return running ? { kind: 'keep' } : { kind: 'start', config: true };
}

async function followKeys(driver: SignerDriver, clock: Clock, scope: Scope): Promise<void> {
  scope.healthy();
  for (;;) {
    const missing = await driver.start(scope.signal);
    scope.waiting(missing.length === 0 ? 'keys to be replaced' : `keys: ${missing.join(' ')}`);
    await clock.sleep(missing.length === 0 ? LATER_MS : SOON_MS, scope.signal);
  }
}
