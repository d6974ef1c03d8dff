import type { Clock } from '../../internal/clock/index.ts';
import { describeError, findCoded, isAbort } from '../../internal/errors/index.ts';
import { map, type Readable } from '../../internal/event/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { NodeCollateralError } from './errors.ts';
import type { CollateralCache } from './collateral-cache.ts';

/**
 * How long a node may be behind its cluster: 5 to 15 minutes. Asking costs a curator next to nothing, and another stream
 * per node would cost it memory for as long as the node lives.
 */
const LOOK_MS = 10 * 60_000;

export interface CollateralWorkerOptions {
  readonly reads: { readonly clusterMembership: Readable<Membership | undefined> };
  readonly curators: Curators;
  readonly cache: CollateralCache;
  readonly clock: Clock;
  /** In [0, 1): nodes that started together don't ask together. */
  readonly random: () => number;
}

/** Keeps this member's collateral as fresh as its cluster's. */
export function collateralWorker(options: CollateralWorkerOptions): Runnable {
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ isMember: membership !== undefined })),
    plan: ({ isMember }) =>
      isMember ? { kind: 'start', config: undefined } : { kind: 'wait', why: 'the membership of this node' },
    start: (scope) => {
      scope.run('look', (look) => keepFresh(options, look));
      return Promise.resolve();
    },
  });
}

async function keepFresh(options: CollateralWorkerOptions, scope: Scope): Promise<void> {
  const { clock, random } = options;
  scope.healthy();
  for (let told = ''; ;) {
    told = await lookOnce(options, scope, told);
    await clock.sleep(LOOK_MS * (0.5 + random()), scope.signal);
  }
}

/** Answers what is wrong, so that it is said once and not every few minutes. */
async function lookOnce(
  { curators, cache: shelf }: CollateralWorkerOptions,
  scope: Scope,
  told: string,
): Promise<string> {
  const { signal, log } = scope;
  const knownSha256 = Buffer.from(shelf.givenSha256, 'hex');
  try {
    const { bundle } = await curators.use(
      (curator, work) => curator.of(Distribution).fetchCollateral({ knownSha256 }, { signal: work }),
      { signal },
    );
    if (bundle.length > 0) await shelf.accept(bundle);
    scope.waiting(undefined);
    return '';
  } catch (error) {
    if (isAbort(error, signal)) throw error;
    const problem = describeError(error);
    scope.waiting(`usable collateral: ${findCoded(error)?.code ?? 'internal'}`);
    if (problem === told) return told;
    if (error instanceof NodeCollateralError)
      log.error('collateral of the cluster is refused, what this node had stays in force', { error });
    else log.info('the collateral of the cluster cannot be had now', { error });
    return problem;
  }
}
