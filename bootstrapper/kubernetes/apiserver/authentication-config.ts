import { dirname } from 'node:path';
import type { FilePort } from '../../../internal/file/index.ts';
import { hardeningOf } from '../hardening.ts';
import { PATHS, type KubernetesSettings } from '../settings.ts';

/** Paths that load balancers and probes request without credentials. Single checks below them are not open. */
const HEALTH_PATHS = ['/healthz', '/livez', '/readyz'] as const;

/**
 * Writes the authentication configuration of the API server. Requests without credentials are anonymous only
 * for its health; any other path answers them with 401 before an authorizer runs.
 */
export async function writeAuthenticationConfig(
  files: FilePort,
  settings: Pick<KubernetesSettings, 'hardening'>,
): Promise<void> {
  await files.makeDirectory(dirname(PATHS.authentication));
  const document = authenticationConfiguration(settings);
  await files.writeAtomic(PATHS.authentication, `${JSON.stringify(document, undefined, 2)}\n`);
}

/** Builds an AuthenticationConfiguration (apiserver.config.k8s.io/v1). */
function authenticationConfiguration(settings: Pick<KubernetesSettings, 'hardening'>): object {
  const isHealthOnly = hardeningOf(settings).anonymousRequests === 'health';
  const conditions = isHealthOnly ? { conditions: HEALTH_PATHS.map((path) => ({ path })) } : {};
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthenticationConfiguration',
    jwt: [],
    anonymous: { enabled: true, ...conditions },
  };
}
