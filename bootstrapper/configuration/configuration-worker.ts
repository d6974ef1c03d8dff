import { Backoff, type Clock } from '../../internal/clock/index.ts';
import { findCoded, isAbort } from '../../internal/errors/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { RepeatedProblem } from '../../internal/logging/index.ts';
import type { ProvisionedTrust } from '../../internal/ownerdocument/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import type { ChecksummedFile, Membership } from '../membership/index.ts';
import { memberWorker, nextWithin, type RoleValues, type RoleValueWriters } from '../roleserve/index.ts';
import { verifyConfiguration, type ConfigurationFloors } from './verify-configuration.ts';

const MAX_PAUSE_MS = 600_000;
/** Pauses after failures. A cluster may stay without any signature of an owner, so the pauses grow. */
const RETRY_PAUSES = { firstMs: 5_000, factor: 2, longestMs: MAX_PAUSE_MS };

/** Inputs and ports (injected dependencies) of the configuration worker. */
export interface ConfigurationWorkerOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterConfiguration'>;
  readonly writes: Pick<RoleValueWriters, 'signedConfiguration'>;
  readonly curators: Curators;
  readonly clock: Clock;
  readonly floors: Pick<ChecksummedFile<ConfigurationFloors>, 'load' | 'save'>;
  /** Raw Ed25519 keys of the first owners, from the provisioning of this machine. */
  readonly ownerKeys: ProvisionedTrust['ownerKeys'];
  /** Returns a number in [0, 1). It spreads the requests of nodes that were woken at the same time. */
  readonly random: () => number;
}

/** Publishes each configuration of the cluster that an owner has signed. */
export function configurationWorker(options: ConfigurationWorkerOptions): Runnable {
  return memberWorker(options, (scope, membership) => {
    scope.run('follow', (child) => follow(options, membership, child));
  });
}

async function follow(
  options: ConfigurationWorkerOptions,
  membership: Membership,
  scope: Scope,
): Promise<void> {
  const { reads, writes, clock, random } = options;
  const { signal, log } = scope;
  using changes = reads.clusterConfiguration.watch();
  scope.healthy();
  let known: string | undefined;
  const problem = new RepeatedProblem();
  const backoff = new Backoff(RETRY_PAUSES);
  for (;;) {
    let pauseMs = MAX_PAUSE_MS;
    try {
      const sha256 = currentValue(reads.clusterConfiguration) ?? '';
      if (sha256 !== '' && sha256 !== known) {
        writes.signedConfiguration.set(await fetchSigned(options, membership, signal));
        known = sha256;
      }
      scope.waiting(sha256 === '' ? 'the configuration of the cluster' : undefined);
      problem.end();
      backoff.reset();
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      if (problem.isNew(error)) log.warn('configuration not updated, keeping the current one', { error });
      scope.waiting(`a signed configuration: ${findCoded(error)?.code ?? 'internal'}`);
      pauseMs = backoff.nextMs();
    }
    await nextWithin(changes, pauseMs * (0.75 + random() / 2), clock, signal);
  }
}

async function fetchSigned(
  { curators, floors, ownerKeys, clock }: ConfigurationWorkerOptions,
  { clusterId, epoch }: Membership,
  signal: AbortSignal,
): Promise<string> {
  const answer = await curators.use(
    (curator, work) => curator.of(Distribution).fetchConfiguration({}, { signal: work }),
    { signal },
  );
  const trust = { ownerKeys, clusterId, epoch, nowMs: clock.nowMs() };
  const before = await floors.load();
  const verified = verifyConfiguration(answer, trust, before);
  if (JSON.stringify(verified.floors) !== JSON.stringify(before)) await floors.save(verified.floors);
  return verified.document;
}
