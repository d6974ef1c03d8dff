import type { Clock } from '../../internal/clock/index.ts';
import {
  registriesFrom,
  serversWithCredentials,
  type RegistriesConfig,
} from '../../internal/config/index.ts';
import { findCoded, isAbort } from '../../internal/errors/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { RepeatedProblem } from '../../internal/logging/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { memberWorker, nextWithin, type RoleValues } from '../roleserve/index.ts';
import { NodeRegistriesError } from './errors.ts';
import { registryDirectories, type RegistryCredentials } from './registry-files.ts';
import { writeRegistries } from './write-registries.ts';

/** Time until the next attempt after a failure, and between attempts to read missing credentials. */
const RETRY_MS = 5_000;
/** Interval at which credentials are read again. Kubernetes has no cheaper way to watch one object. */
const CREDENTIALS_MS = 30_000;
/** Time until the files on disk are compared again, in case somebody has changed them. */
const RECHECK_MS = 600_000;

/** Inputs and ports (injected dependencies) of the registries worker. */
export interface RegistriesWorkerOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'signedConfiguration'>;
  readonly clock: Clock;
  readonly files: FilePort;
  /** Directory of all registries. */
  readonly root: string;
  readonly readCredentials: (signal: AbortSignal) => Promise<RegistryCredentials>;
  /** Returns a number in [0, 1). It spreads the requests of nodes that were woken at the same time. */
  readonly random: () => number;
}

/** Writes the registries of the configuration for containerd, now and whenever they or their credentials change. */
export function registriesWorker(options: RegistriesWorkerOptions): Runnable {
  return memberWorker(options, (scope) => {
    scope.run('follow', (child) => follow(options, child));
  });
}

async function follow(options: RegistriesWorkerOptions, scope: Scope): Promise<void> {
  const { reads, clock, random } = options;
  const { signal, log } = scope;
  using changes = reads.signedConfiguration.watch();
  scope.healthy();
  const problem = new RepeatedProblem();
  for (;;) {
    let pauseMs = RECHECK_MS;
    try {
      const configuration = currentValue(reads.signedConfiguration);
      if (configuration === undefined) scope.waiting('the configuration of the cluster');
      else pauseMs = await apply(options, registriesOf(configuration), scope);
      problem.end();
    } catch (error) {
      if (isAbort(error, signal)) throw error;
      if (problem.isNew(error)) log.warn('registries not updated, keeping the current ones', { error });
      scope.waiting(`registries: ${findCoded(error)?.code ?? 'internal'}`);
      pauseMs = RETRY_MS;
    }
    await nextWithin(changes, pauseMs * (0.75 + random() / 2), clock, signal);
  }
}

/** @throws NodeRegistriesError `noderegistries-invalid` */
function registriesOf(configuration: string): RegistriesConfig {
  try {
    return registriesFrom(configuration);
  } catch (cause) {
    throw new NodeRegistriesError('noderegistries-invalid', 'reading the registries of the cluster', {
      cause,
    });
  }
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
