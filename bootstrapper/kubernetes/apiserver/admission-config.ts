import { dirname } from 'node:path';
import { NETWORK_NAMESPACE } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { hardeningOf } from '../hardening.ts';
import { PATHS, type KubernetesSettings } from '../settings.ts';

type AdmissionSettings = Pick<KubernetesSettings, 'podSecurity' | 'hardening'>;

/**
 * Namespaces of the distribution's own pods. Some of these pods need privileges, for example to set up the network of
 * the node.
 */
const SYSTEM_NAMESPACES = ['kube-system', NETWORK_NAMESPACE] as const;

/**
 * Writes the admission configuration, which API servers read only when they start. New clusters enforce Pod
 * Security levels. Clusters created by earlier releases only warn and audit: if they enforced a level,
 * running pods could not be created again. Their API servers read this file the next time that the agent
 * writes their static pods. Labels of a namespace override the file; only administrators can set these
 * labels.
 */
export async function writeAdmissionConfig(files: FilePort, settings: AdmissionSettings): Promise<void> {
  await files.makeDirectory(dirname(PATHS.admission));
  const document = admissionConfiguration(settings);
  await files.writeAtomic(PATHS.admission, `${JSON.stringify(document, undefined, 2)}\n`);
}

/** The admission plugins that API servers run in addition to those of Kubernetes. */
export function admissionPlugins(settings: Pick<KubernetesSettings, 'hardening'>): readonly string[] {
  const { eventRateLimit, serviceExternalIps } = hardeningOf(settings);
  return [
    'NodeRestriction', // the value of kubeadm, which this list replaces
    ...(eventRateLimit ? ['EventRateLimit'] : []),
    ...(serviceExternalIps ? [] : ['DenyServiceExternalIPs']),
  ];
}

/** Builds an AdmissionConfiguration (apiserver.config.k8s.io/v1). */
function admissionConfiguration(settings: AdmissionSettings): object {
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      podSecurityPlugin(settings),
      ...(hardeningOf(settings).eventRateLimit ? [EVENT_RATE_LIMIT] : []),
    ],
  };
}

/** Settings of Pod Security (pod-security.admission.config.k8s.io/v1). */
function podSecurityPlugin({ podSecurity }: AdmissionSettings): object {
  const enforce = podSecurity?.enforce ?? 'privileged';
  const warn = podSecurity === undefined ? 'baseline' : 'restricted';
  return {
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
  };
}

/**
 * Limits of events (eventratelimit.admission.k8s.io/v1alpha1). They are far above what a rollout of hundreds
 * of pods creates, and keep one namespace or user from filling etcd.
 */
const EVENT_RATE_LIMIT = {
  name: 'EventRateLimit',
  configuration: {
    apiVersion: 'eventratelimit.admission.k8s.io/v1alpha1',
    kind: 'Configuration',
    limits: [
      { type: 'Server', qps: 2000, burst: 10_000 },
      { type: 'Namespace', qps: 200, burst: 5000, cacheSize: 4096 },
      { type: 'User', qps: 500, burst: 5000, cacheSize: 4096 },
    ],
  },
};
