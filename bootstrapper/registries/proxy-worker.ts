import { proxyEnvironmentFrom } from '../../internal/config/index.ts';
import { readText } from '../../internal/file/index.ts';
import { UNIT_DIRECTORY, type SystemPorts } from '../../internal/platform/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { CONTAINERD_UNIT } from '../kubernetes/index.ts';
import { memberWorker, type RoleValues } from '../roleserve/index.ts';
import { NodeRegistriesError } from './errors.ts';

/** Drop-in of containerd's unit with the proxy of the cluster. */
export const PROXY_DROPIN = `${CONTAINERD_UNIT}.d/50-proxy.conf`;

/** Inputs and ports (injected dependencies) of the proxy worker. */
export interface ProxyWorkerOptions extends Pick<SystemPorts, 'files' | 'units'> {
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'signedConfiguration'>;
}

/**
 * Makes containerd pull images through the proxy of the configuration, and without one when the section is removed. A change restarts
 * containerd; containers keep running.
 */
export function proxyWorker(options: ProxyWorkerOptions): Runnable {
  return memberWorker(options, (scope) => {
    const containerd = { isOutdated: false };
    scope.run('follow', (child) => follow({ ...options, containerd }, child));
  });
}

/**
 * Whether containerd still runs without the drop-in on disk. This state is kept when an attempt fails and the worker
 * starts again.
 */
interface Outdated {
  readonly containerd: { isOutdated: boolean };
}

async function follow(options: ProxyWorkerOptions & Outdated, scope: Scope): Promise<never> {
  using changes = options.reads.signedConfiguration.watch();
  scope.healthy();
  for (;;) {
    const configuration = await changes.next(scope.signal);
    scope.waiting(configuration === undefined ? 'the configuration of the cluster' : undefined);
    if (configuration !== undefined) await apply(options, environmentFrom(configuration), scope);
  }
}

/** @throws NodeRegistriesError `noderegistries-invalid` */
function environmentFrom(configuration: string): Readonly<Record<string, string>> {
  try {
    return proxyEnvironmentFrom(configuration);
  } catch (cause) {
    throw new NodeRegistriesError('noderegistries-invalid', 'reading the proxy of the cluster', { cause });
  }
}

async function apply(
  { files, units, containerd }: ProxyWorkerOptions & Outdated,
  environment: Readonly<Record<string, string>>,
  { signal, log }: Scope,
): Promise<void> {
  const found = await readText(files, `${UNIT_DIRECTORY}/${PROXY_DROPIN}`);
  const wanted = buildDropin(environment);
  const isWithout = Object.keys(environment).length === 0;
  const isWritten = found === wanted || (found === undefined && isWithout);
  if (isWritten && !containerd.isOutdated) return;
  // Before the write: after a crash in between, the agent's next start restarts containerd.
  await units.requireRestart(CONTAINERD_UNIT);
  containerd.isOutdated = true;
  await units.install(PROXY_DROPIN, wanted, signal);
  const { active } = await units.status(CONTAINERD_UNIT, signal);
  if (active === 'active') await units.restart(CONTAINERD_UNIT, signal);
  containerd.isOutdated = false;
  log.info(isWithout ? 'proxy removed' : 'proxy changed', environment);
}

function buildDropin(environment: Readonly<Record<string, string>>): string {
  const lines = Object.entries(environment).map(([name, value]) => `Environment="${name}=${value}"`);
  return `[Service]\n${lines.map((line) => `${line}\n`).join('')}`;
}
