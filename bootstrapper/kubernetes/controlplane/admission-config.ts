import { dirname } from 'node:path';
import type { PodSecurityConfig } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

/**
 * Namespaces of the distribution's own pods. These pods set up the network of the node and need privileges
 * for it.
 */
const SYSTEM_NAMESPACES = ['kube-system', 'kube-flannel'] as const;

/**
 * Writes the admission configuration, which API servers read only when they start. New clusters enforce Pod
 * Security levels. Clusters created by earlier releases only warn and audit: if they enforced a level,
 * running pods could not be created again. Their API servers read this file the next time that the agent
 * writes their static pods. Labels of a namespace override the file; only administrators can set these
 * labels.
 */
export async function writeAdmissionConfig(
  files: FilePort,
  podSecurity: PodSecurityConfig | undefined,
): Promise<void> {
  await files.makeDirectory(dirname(PATHS.admission));
  const document = admissionConfiguration(podSecurity);
  await files.writeAtomic(PATHS.admission, `${JSON.stringify(document, undefined, 2)}\n`);
}

/** Builds an AdmissionConfiguration (apiserver.config.k8s.io/v1, pod-security.admission.config.k8s.io/v1). */
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
