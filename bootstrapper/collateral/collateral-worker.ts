import type { Clock } from '../../internal/clock/index.ts';
import { findCoded, isAbort } from '../../internal/errors/index.ts';
import { RepeatedProblem } from '../../internal/logging/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import { memberWorker, type RoleValues } from '../roleserve/index.ts';
import type { CollateralCache } from './collateral-cache.ts';

/**
 * Base for the pause between polls: a node polls every 5 to 15 minutes. A poll costs a curator almost
 * nothing. A stream would cost the curator memory for each node as long as the node runs.
 */
const POLL_MS = 10 * 60_000;

/** Inputs and ports (injected dependencies) of `collateralWorker`. */
export interface CollateralWorkerOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership'>;
  readonly curators: Curators;
  readonly cache: CollateralCache;
  readonly clock: Clock;
  /** Returns a number in [0, 1). It spreads the polls of nodes that started at the same time. */
  readonly random: () => number;
}

/** Polls curators, so that this member has the same collateral as its cluster. */
export function collateralWorker(options: CollateralWorkerOptions): Runnable {
  return memberWorker(options, (scope) => void scope.run('look', (poll) => pollCurators(options, poll)));
}

/** Polls until the signal of the scope fires. */
async function pollCurators(options: CollateralWorkerOptions, scope: Scope): Promise<void> {
  const { curators, cache, clock, random } = options;
  const { signal, log } = scope;
  scope.healthy();
  const problem = new RepeatedProblem();
  for (; ; await clock.sleep(POLL_MS * (0.5 + random()), signal)) {
    const knownSha256 = Buffer.from(cache.givenSha256, 'hex');
    try {
      const { bundle } = await curators.use(
        (curator, work) => curator.of(Distribution).fetchCollateral({ knownSha256 }, { signal: work }),
        { signal },
      );
      if (bundle.length > 0) await cache.accept(bundle);
      scope.waiting(undefined);
      problem.end();
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      scope.waiting(`usable collateral: ${findCoded(error)?.code ?? 'internal'}`);
      if (problem.isNew(error)) log.warn('collateral not updated, keeping the current one', { error });
    }
  }
}
