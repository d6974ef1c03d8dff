import { dirname } from 'node:path';
import type { PodSecurityConfig } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

/** Namespaces of this product's own pods, which set up the network of the node and need privileges for it. */
const SYSTEM_NAMESPACES = ['kube-system', 'kube-flannel'] as const;

/**
 * Writes the admission configuration, which API servers read only at their start. New clusters enforce Pod Security levels.
 * Clusters of earlier releases only warn and audit, because running pods would not come back; their API servers use this file
 * from the next time that their static pods are written. Labels of a namespace override the file; only administrators can set
 * them.
 */
export async function writeAdmissionConfig(
  files: FilePort,
  podSecurity: PodSecurityConfig | undefined,
): Promise<void> {
  await files.makeDirectory(dirname(PATHS.admission));
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
