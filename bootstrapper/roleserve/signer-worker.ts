import type { Clock } from '../../internal/clock/index.ts';
import { combine, type Readable } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { LocalControlPlane, RoleSet } from './role-values.ts';

/** Until the keys of Kubernetes are there: they are made after etcd's. */
const SOON_MS = 1_000;
/** Afterwards: keys that were replaced. */
const LATER_MS = 60_000;

/** The unit that signs; see bootstrapper/units. */
export interface SignerDriver {
  /** Hands over what keys there are, and answers the names of those that are not. May be repeated. */
  start(signal: AbortSignal): Promise<readonly string[]>;
  stop(signal: AbortSignal): Promise<void>;
}

export interface SignerOptions {
  readonly reads: {
    readonly localControlPlane: Readable<LocalControlPlane | undefined>;
    readonly localRoles: Readable<RoleSet | undefined>;
  };
  readonly driver: SignerDriver;
  readonly clock: Clock;
}

/** The signer runs where a control plane does. */
export function signerWorker({ reads, driver, clock }: SignerOptions): Runnable {
  return launcher({
    input: combine({ controlPlane: reads.localControlPlane, roles: reads.localRoles }),
    plan: planSigner,
    start: async (scope) => {
      await driver.start(scope.signal);
      scope.run('keys', (child) => followKeys(driver, clock, child));
    },
    tearDown: (scope) => driver.stop(scope.signal),
  });
}

interface Inputs {
  readonly controlPlane: LocalControlPlane | undefined;
  readonly roles: RoleSet | undefined;
}

/**
 * Only a role that went stops it: an agent that has just started knows its roles before it has found its control plane
 * again, and the signer is to outlive that.
 */
export function planSigner({ controlPlane, roles }: Inputs, running: boolean): Plan<true> {
  if (roles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (!roles.has('ConsensusMember')) return { kind: 'stop', why: 'idle: role absent' };
  if (controlPlane === undefined) return { kind: 'wait', why: 'the control plane of this node' };
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
