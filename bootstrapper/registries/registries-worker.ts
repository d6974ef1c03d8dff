import type { Clock } from '../../internal/clock/index.ts';
import { serversWithCredentials, type RegistriesConfig } from '../../internal/config/index.ts';
import { describeError, findCoded, isAbort } from '../../internal/errors/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { ProvisionedTrust } from '../../internal/ownerdocument/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';
import type { ChecksummedFile, Membership } from '../membership/index.ts';
import { memberWorker, nextWithin, type RoleValues } from '../roleserve/index.ts';
import { registryDirectories, type RegistryCredentials } from './registry-files.ts';
import { verifyConfiguration, type ConfigurationFloors } from './verify-configuration.ts';
import { writeRegistries } from './write-registries.ts';

/** Until the next attempt after a failure, and until credentials that are missing are looked for again. */
const RETRY_MS = 5_000;
/** Until changed credentials are noticed. Kubernetes has no cheaper way to ask for one object. */
const CREDENTIALS_MS = 30_000;
/** Until the files on disk are compared again, in case somebody has changed them. */
const RECHECK_MS = 600_000;

/** Inputs and ports (injected dependencies) of the registries worker. */
export interface RegistriesWorkerOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterConfiguration'>;
  readonly curators: Curators;
  readonly clock: Clock;
  readonly files: FilePort;
  /** Directory of all registries. */
  readonly root: string;
  readonly floors: Pick<ChecksummedFile<ConfigurationFloors>, 'load' | 'save'>;
  /** Raw Ed25519 keys of the first owners, from the provisioning of this machine. */
  readonly ownerKeys: ProvisionedTrust['ownerKeys'];
  readonly readCredentials: (signal: AbortSignal) => Promise<RegistryCredentials>;
  /** Returns a number in [0, 1). It spreads the requests of nodes that were woken at the same time. */
  readonly random: () => number;
}

/** Writes the registries of the configuration for containerd, now and whenever they or their credentials change. */
export function registriesWorker(options: RegistriesWorkerOptions): Runnable {
  return memberWorker(options, (scope, membership) => {
    scope.run('follow', (child) => follow(options, membership, child));
  });
}

async function follow(options: RegistriesWorkerOptions, membership: Membership, scope: Scope): Promise<void> {
  const { reads, clock, random } = options;
  const { signal, log } = scope;
  using changes = reads.clusterConfiguration.watch();
  scope.healthy();
  let applied: Applied | undefined;
  let logged = '';
  let retryMs = RETRY_MS;
  for (;;) {
    let pauseMs = RECHECK_MS;
    try {
      const sha256 = currentValue(reads.clusterConfiguration);
      if (sha256 !== undefined && sha256 !== '') {
        if (applied?.sha256 !== sha256)
          applied = { sha256, registries: await fetchRegistries(options, membership, signal) };
        pauseMs = await apply(options, applied.registries, scope);
      } else scope.waiting('the configuration of the cluster');
      logged = '';
      retryMs = RETRY_MS;
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      const problem = describeError(error);
      // A problem is logged once, not at each attempt.
      if (problem !== logged) log.warn('registries not updated, keeping the current ones', { error });
      logged = problem;
      scope.waiting(`registries: ${findCoded(error)?.code ?? 'internal'}`);
      // A cluster that no owner has signed anything about must not be asked every few seconds for ever.
      pauseMs = retryMs;
      retryMs = Math.min(2 * retryMs, RECHECK_MS);
    }
    await nextWithin(changes, pauseMs * (0.75 + random() / 2), clock, signal);
  }
}

interface Applied {
  readonly sha256: string;
  readonly registries: RegistriesConfig;
}

/** Fetches the configuration. A curator proves nothing: the signature of an owner does. */
async function fetchRegistries(
  { curators, floors, ownerKeys, clock }: RegistriesWorkerOptions,
  { clusterId, epoch }: Membership,
  signal: AbortSignal,
): Promise<RegistriesConfig> {
  const answer = await curators.use(
    (curator, work) => curator.of(Distribution).fetchConfiguration({}, { signal: work }),
    { signal },
  );
  const trust = { ownerKeys, clusterId, epoch, nowMs: clock.nowMs() };
  const before = await floors.load();
  const verified = verifyConfiguration(answer, trust, before);
  if (JSON.stringify(verified.floors) !== JSON.stringify(before)) await floors.save(verified.floors);
  return verified.registries;
}

/** @returns the time until it must be called again */
async function apply(
  { files, root, readCredentials }: RegistriesWorkerOptions,
  registries: RegistriesConfig,
  scope: Scope,
): Promise<number> {
  const servers = serversWithCredentials(registries);
  const credentials = servers.length === 0 ? new Map() : await readCredentials(scope.signal);
  const directories = registryDirectories(registries, credentials, root);
  const { changed, foreign } = await writeRegistries(files, root, directories);
  if (changed.length > 0) scope.log.info('registries changed', { changed });
  const missing = servers.filter((server) => !credentials.has(server));
  const problems = [
    ...foreign.map((name) => `an operator to remove ${root}/${name}, which is not from cluster.yaml`),
    ...(missing.length === 0 ? [] : [`credentials of ${missing.join(', ')}`]),
  ];
  scope.waiting(problems.length === 0 ? undefined : problems.join('; '));
  if (missing.length > 0) return RETRY_MS;
  return servers.length > 0 ? CREDENTIALS_MS : RECHECK_MS;
}
