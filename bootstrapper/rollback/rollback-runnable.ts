import type { Clock } from '../../internal/clock/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { NEVER_MS, type RollbackGuard } from './rollback-guard.ts';

/**
 * A document that was accepted this short before the power was cut is not bound to the counter yet. An attacker who can cut the power
 * then could as well keep the document away.
 */
const CHECK_MS = 10_000;

/** Records the documents that agent and signer accept. */
export function rollbackRunnable(options: {
  readonly rollback: Pick<RollbackGuard, 'check' | 'signedAfterMs'>;
  readonly clock: Clock;
}): Runnable {
  const { rollback, clock } = options;
  return async (scope) => {
    scope.healthy();
    for (;;) {
      await rollback.check();
      scope.waiting(describe(rollback));
      await clock.sleep(CHECK_MS, scope.signal);
    }
  };
}

/** What `cluster node show` says. */
function describe({ signedAfterMs }: Pick<RollbackGuard, 'signedAfterMs'>): string {
  if (signedAfterMs === undefined) return 'newer owner documents';
  if (signedAfterMs === NEVER_MS) return 'the TPM: it has to say whether the disk is an old copy';
  return `owner documents signed after ${new Date(signedAfterMs).toISOString()}: the disk is an old copy`;
}
