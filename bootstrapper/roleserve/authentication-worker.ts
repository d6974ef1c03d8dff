import { authenticationFrom, type AuthenticationConfig } from '../../internal/config/index.ts';
import { combine, follow } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { launcher, type Plan, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { writeAuthenticationConfig, type KubernetesSettings } from '../kubernetes/index.ts';
import type { RoleState, RoleValues } from './role-values.ts';

/** Inputs and ports (injected dependencies) of the authentication worker. */
export interface AuthenticationOptions {
  readonly reads: Pick<RoleValues, 'clusterSettings' | 'kubernetesStatus' | 'signedConfiguration'>;
  readonly files: FilePort;
}

/** Runs on nodes that run a Kubernetes control plane. Pure. */
export function planAuthentication({
  clusterSettings,
  kubernetesStatus,
}: Pick<RoleState, 'clusterSettings' | 'kubernetesStatus'>): Plan<Pick<KubernetesSettings, 'hardening'>> {
  if (clusterSettings === undefined) return { kind: 'wait', why: 'the settings of the cluster' };
  if (kubernetesStatus?.controlPlane !== true)
    return { kind: 'wait', why: 'idle: no Kubernetes control plane on this node' };
  return { kind: 'start', config: { hardening: clusterSettings.hardening } };
}

/** Gives the API server of this node the issuers of the configuration whenever they change. The API server is not restarted. */
export function authenticationWorker(options: AuthenticationOptions): Runnable {
  const { clusterSettings, kubernetesStatus, signedConfiguration } = options.reads;
  return launcher({
    input: combine({ clusterSettings, kubernetesStatus }),
    plan: planAuthentication,
    start: async (scope, settings) => {
      scope.run('follow', async (child) => {
        child.healthy();
        child.waiting('the configuration of the cluster');
        for await (const configuration of follow(signedConfiguration, child.signal))
          if (configuration !== undefined) await apply(options.files, settings, configuration, child);
      });
    },
  });
}

async function apply(
  files: FilePort,
  settings: Pick<KubernetesSettings, 'hardening'>,
  configuration: string,
  scope: Scope,
): Promise<void> {
  let authentication: AuthenticationConfig;
  try {
    authentication = authenticationFrom(configuration);
  } catch (error) {
    // A newer agent version may know this format. The issuers that this API server accepts stay unchanged.
    scope.log.warn('issuers not updated: their configuration has an unknown form', { error });
    scope.waiting('issuers in a form that this version knows');
    return;
  }
  scope.waiting(undefined);
  if (await writeAuthenticationConfig(files, settings, authentication))
    scope.log.info('issuers changed', { issuers: authentication.issuers.map(({ url }) => url) });
}
