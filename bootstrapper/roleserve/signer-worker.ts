import type { Clock } from '../../internal/clock/index.ts';
import { combine } from '../../internal/event/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import type { RoleState, RoleValues } from './role-values.ts';

/** Interval of the attempts until the Kubernetes keys exist, which are created after the keys of etcd. */
const SOON_MS = 1_000;
/** Interval afterwards, to find replaced keys. */
const LATER_MS = 60_000;

/** The systemd unit of the signer; see bootstrapper/units. */
export interface SignerDriver {
  /** Starts the signer with all existing keys. Resolves to the names of missing keys. May be repeated. */
  start(signal: AbortSignal): Promise<readonly string[]>;
  stop(signal: AbortSignal): Promise<void>;
}

/** Inputs and ports (injected dependencies) of the signer worker. */
export interface SignerOptions {
  readonly reads: Pick<RoleValues, 'localControlPlane' | 'localRoles'>;
  readonly driver: SignerDriver;
  readonly clock: Clock;
}

/** Runs the signer on control planes. */
export function signerWorker({ reads, driver, clock }: SignerOptions): Runnable {
  const { localControlPlane, localRoles } = reads;
  return launcher({
    input: combine({ localControlPlane, localRoles }),
    plan: planSigner,
    start: async (scope) => {
      await driver.start(scope.signal);
      scope.run('keys', (child) => followKeys(driver, clock, child));
    },
    tearDown: (scope) => driver.stop(scope.signal),
  });
}

/**
 * Only a removed role stops the signer. A restarted agent knows its roles before its control plane, and the
 * signer must keep running meanwhile. Pure.
 */
export function planSigner(
  { localControlPlane, localRoles }: Pick<RoleState, 'localControlPlane' | 'localRoles'>,
  running: boolean,
): Plan<true> {
  if (localRoles === undefined) return { kind: 'wait', why: 'the roles of this node' };
  if (!localRoles.has('ConsensusMember')) return { kind: 'stop', why: 'idle: role absent' };
  if (localControlPlane === undefined) return { kind: 'wait', why: 'the control plane of this node' };
  return running ? { kind: 'keep' } : { kind: 'start', config: true };
}

async function followKeys(driver: SignerDriver, clock: Clock, scope: Scope): Promise<void> {
  scope.healthy();
  for (;;) {
    const missing = await driver.start(scope.signal);
    scope.waiting(missing.length === 0 ? 'replaced keys' : `missing keys: ${missing.join(' ')}`);
    await clock.sleep(missing.length === 0 ? LATER_MS : SOON_MS, scope.signal);
  }
}
