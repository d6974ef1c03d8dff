import type { PodSecurityConfig } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

/** What runs there is this program's own, makes the node's network and needs the node for it. */
const SYSTEM_NAMESPACES = ['kube-system', 'kube-flannel'] as const;

/**
 * What the API server reads about admission, at its start only. Pod Security levels of a new cluster are enforced; one that
 * was made before there was this is told what would be refused (`warn`, `audit`), and refuses nothing: pods that run there
 * would not come back. Its API servers take this up when their static pods are next written. A namespace with labels of its own follows those, and only administrators set them.
 */
export async function writeAdmissionConfig(
  files: FilePort,
  podSecurity: PodSecurityConfig | undefined,
): Promise<void> {
  await files.makeDirectory(PATHS.admission.slice(0, PATHS.admission.lastIndexOf('/')));
  const document = admissionConfiguration(podSecurity);
  await files.writeAtomic(PATHS.admission, `${JSON.stringify(document, undefined, 2)}\n`);
}

/** apiserver.config.k8s.io/v1, pod-security.admission.config.k8s.io/v1. */
function admissionConfiguration(podSecurity: PodSecurityConfig | undefined): object {
  const enforce = podSecurity?.enforce ?? 'privileged';
  const warn = podSecurity === undefined ? 'baseline' : 'restricted';
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults: {
            ...{ enforce, 'enforce-version': 'latest' },
            ...{ audit: 'restricted', 'audit-version': 'latest' },
            ...{ warn, 'warn-version': 'latest' },
          },
          exemptions: {
            usernames: [],
            runtimeClasses: [],
            namespaces: [...SYSTEM_NAMESPACES, ...(podSecurity?.exemptNamespaces ?? [])],
          },
        },
      },
    ],
  };
}
