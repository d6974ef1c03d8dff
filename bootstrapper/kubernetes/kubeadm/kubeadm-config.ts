import { dirname } from 'node:path';
import { hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { admissionPlugins } from '../apiserver/admission-config.ts';
import { auditArguments } from '../apiserver/audit-policy.ts';
import { hardeningOf, tlsArguments } from '../hardening.ts';
import { kubeletConfiguration } from '../kubelet/kubelet-config.ts';
import { COMPONENT_CLIENTS, ROTATED_FILES } from '../credentials/key-files.ts';
import {
  apiEndpointOf,
  nodeAddressesOf,
  PATHS,
  type EtcdClientFiles,
  type KubernetesSettings,
} from '../settings.ts';
import { NEVER_ROTATED, type SharedKeyState, type StaticPod } from '../credentials/shared-keys.ts';

/**
 * Builds the configuration file of kubeadm (kubeadm.k8s.io/v1beta4, kubelet.config.k8s.io/v1beta1,
 * kubeproxy.config.k8s.io/v1alpha1) as JSON documents, which are valid YAML.
 */
export function buildKubeadmConfig(
  settings: KubernetesSettings,
  etcd: EtcdClientFiles,
  variant: StaticPodVariant = FIRST_VARIANT,
): string {
  const documents = [
    initConfiguration(settings),
    clusterConfiguration(settings, etcd, variant),
    kubeletConfiguration(settings, variant.keys),
    proxyConfiguration(),
  ];
  return documents.map((document) => JSON.stringify(document, undefined, 2)).join('\n---\n') + '\n';
}

const KUBEADM_API = 'kubeadm.k8s.io/v1beta4';
/** Environment variable with the digest of the keys with which a static pod runs. */
export const KEYS_VARIABLE = 'CLUSTER_KEYS';
/** Environment variable with the control-plane generation. */
const GENERATION_VARIABLE = 'CLUSTER_TENURE';

/**
 * Values that distinguish a static pod from an earlier one with the same settings. A changed value restarts
 * the pod.
 */
export interface StaticPodVariant {
  readonly keys: SharedKeyState;
  readonly controlPlaneGeneration: string | undefined;
}

const FIRST_VARIANT: StaticPodVariant = { keys: NEVER_ROTATED, controlPlaneGeneration: undefined };

function initConfiguration(settings: KubernetesSettings): object {
  return {
    apiVersion: KUBEADM_API,
    kind: 'InitConfiguration',
    // Without this empty list, kubeadm would create a bootstrap token. One token is enough to get a
    // certificate for any node name.
    bootstrapTokens: [],
    localAPIEndpoint: { advertiseAddress: settings.nodeAddress, bindPort: PORTS.apiServer },
    nodeRegistration: {
      name: settings.nodeName,
      criSocket: `unix://${PATHS.containerdSocket}`,
      imagePullPolicy: 'IfNotPresent',
      // Without this empty list, kubeadm would set its taint. Here, the taint depends on the roles
      // (taints/control-plane-taint.ts).
      taints: [],
      kubeletExtraArgs: [{ name: 'node-ip', value: nodeAddressesOf(settings).join(',') }],
    },
  };
}

function clusterConfiguration(
  settings: KubernetesSettings,
  etcd: EtcdClientFiles,
  variant: StaticPodVariant,
): object {
  const { podDigests: digests } = variant.keys;
  return {
    apiVersion: KUBEADM_API,
    kind: 'ClusterConfiguration',
    clusterName: settings.clusterName,
    kubernetesVersion: settings.version,
    // Creating RSA keys would take longer than the rest of the phase.
    encryptionAlgorithm: 'ECDSA-P256',
    controlPlaneEndpoint: apiEndpointOf(settings),
    certificateValidityPeriod: `${settings.certificates.controlPlaneMinutes}m`,
    networking: { podSubnet: settings.podSubnet, serviceSubnet: settings.serviceSubnet },
    etcd: {
      external: {
        endpoints: [etcd.endpoint],
        caFile: etcd.caFile,
        certFile: etcd.certFile,
        keyFile: etcd.keyFile,
      },
    },
    apiServer: {
      certSANs: [
        '127.0.0.1',
        'localhost',
        settings.nodeName,
        ...nodeAddressesOf(settings),
        ...settings.apiServerSans,
        ...(settings.apiEndpoint === undefined ? [] : [hostOf(settings.apiEndpoint)]),
      ],
      extraArgs: [
        { name: 'encryption-provider-config', value: PATHS.encryption },
        { name: 'encryption-provider-config-automatic-reload', value: 'true' },
        // The membership webhook refuses removed nodes before the authorizers of Kubernetes run
        // (controlplane/authorization-config.ts).
        { name: 'authorization-config', value: PATHS.authorization },
        // Configures Pod Security (apiserver/admission-config.ts).
        { name: 'admission-control-config-file', value: PATHS.admission },
        // Without this CA, the API server would not verify kubelets when it reads logs, runs commands or
        // reads metrics.
        { name: 'kubelet-certificate-authority', value: serversCaFile(variant) },
        // No bootstrap tokens exist, and the API server must accept none.
        { name: 'enable-bootstrap-token-auth', value: 'false' },
        { name: 'profiling', value: 'false' },
        // Anonymous requests are for health checks only (apiserver/authentication-config.ts).
        { name: 'authentication-config', value: PATHS.authentication },
        { name: 'enable-admission-plugins', value: admissionPlugins(settings).join(',') },
        // Limits the lifetime of a pod's token to an hour, in case the token is stolen.
        ...(hardeningOf(settings).extendedTokens
          ? []
          : [{ name: 'service-account-extend-token-expiration', value: 'false' }]),
        ...tlsArguments(settings),
        ...auditArguments(),
        ...(digests === undefined ? [] : CLIENT_CAS),
        ...extraArguments(settings, 'apiServer'),
      ],
      ...variantEnv('kube-apiserver', variant),
      extraVolumes: [
        volume('encryption', dirname(PATHS.encryption)),
        volume('authorization', dirname(PATHS.authorization)),
        volume('admission', dirname(PATHS.admission)),
        volume('authentication', dirname(PATHS.authentication)),
        volume('audit-policy', dirname(PATHS.auditPolicy)),
        { ...volume('audit-log', dirname(PATHS.auditLog)), readOnly: false },
      ],
    },
    controllerManager: controllerManager(settings, variant),
    scheduler: {
      extraArgs: [
        { name: 'profiling', value: 'false' },
        ...tlsArguments(settings),
        ...extraArguments(settings, 'scheduler'),
      ],
      ...variantEnv('kube-scheduler', variant),
      extraVolumes: [volume('client-certificate', COMPONENT_CLIENTS.scheduler.directory)],
    },
  };
}

function controllerManager(settings: KubernetesSettings, variant: StaticPodVariant): object {
  return {
    extraArgs: [
      // Without this setting, kubeadm would enable the controllers for bootstrap tokens too.
      { name: 'controllers', value: '*' },
      { name: 'profiling', value: 'false' },
      // The default of Kubernetes, written down for auditors.
      { name: 'terminated-pod-gc-threshold', value: '12500' },
      ...tlsArguments(settings),
      // The controller manager requests a token for each of its controllers when it starts. At the default
      // rate (20 per second), the first pods of a cluster would wait for seconds. The API server limits its
      // clients anyway (priority and fairness).
      { name: 'kube-api-qps', value: '100' },
      { name: 'kube-api-burst', value: '200' },
      ...(variant.keys.podDigests === undefined ? [] : [...CLIENT_CAS, ...REQUEST_SIGNERS]),
      // The CAs with which pods verify API servers (the ConfigMap kube-root-ca.crt). kubeadm would set only the signing
      // CA.
      ...(variant.keys.hasServersTrustBundle
        ? [{ name: 'root-ca-file', value: serversCaFile(variant) }]
        : []),
      ...extraArguments(settings, 'controllerManager'),
    ],
    ...variantEnv('kube-controller-manager', variant),
    extraVolumes: [volume('client-certificate', COMPONENT_CLIENTS['controller-manager'].directory)],
  };
}

/**
 * The extra arguments that the operator configured. The configuration schema does not allow arguments that this file
 * sets.
 */
function extraArguments(
  { extraArguments: all }: KubernetesSettings,
  component: 'apiServer' | 'controllerManager' | 'scheduler',
): readonly { readonly name: string; readonly value: string }[] {
  return Object.entries(all?.[component] ?? {}).map(([name, value]) => ({ name, value: String(value) }));
}

/** The file with the CAs of servers. With them, the API server verifies kubelets, and pods verify API servers. */
function serversCaFile({ keys }: StaticPodVariant): string {
  return keys.hasServersTrustBundle ? ROTATED_FILES.serversTrustBundle : `${PATHS.pki}/ca.crt`;
}

/** Trusted CAs of clients. The API server and the controller manager reload these files. */
const CLIENT_CAS = [
  { name: 'client-ca-file', value: ROTATED_FILES.clientsTrustBundle },
  { name: 'requestheader-client-ca-file', value: ROTATED_FILES.frontProxyTrustBundle },
];

/** CAs that sign CertificateSigningRequests: one for clients, another for servers. */
const REQUEST_SIGNERS = [
  // kubeadm sets one CA for all signers. That setting excludes separate settings per signer.
  { name: 'cluster-signing-cert-file', value: '' },
  { name: 'cluster-signing-key-file', value: '' },
  ...['kube-apiserver-client', 'kubelet-client'].flatMap((name) =>
    requestSigner(name, ROTATED_FILES.issuerCert, ROTATED_FILES.issuerKey),
  ),
  ...['kubelet-serving', 'legacy-unknown'].flatMap((name) =>
    requestSigner(name, `${PATHS.pki}/ca.crt`, `${PATHS.pki}/ca.key`),
  ),
];

function requestSigner(name: string, certFile: string, keyFile: string): readonly object[] {
  return [
    { name: `cluster-signing-${name}-cert-file`, value: certFile },
    { name: `cluster-signing-${name}-key-file`, value: keyFile },
  ];
}

/**
 * Builds the environment variables of a static pod. The kubelet restarts the pod when one of them changes.
 */
function variantEnv(pod: StaticPod, { keys, controlPlaneGeneration }: StaticPodVariant): object {
  const values = { [KEYS_VARIABLE]: keys.podDigests?.[pod], [GENERATION_VARIABLE]: controlPlaneGeneration };
  const extraEnvs = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value }],
  );
  return extraEnvs.length === 0 ? {} : { extraEnvs };
}

function volume(name: string, path: string): object {
  return { name, hostPath: path, mountPath: path, readOnly: true, pathType: 'Directory' };
}

function proxyConfiguration(): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    // kube-proxy must not set nf_conntrack_max: this limit applies to the whole machine, and is read-only in
    // a network namespace.
    conntrack: { maxPerCore: 0, min: 0 },
  };
}
