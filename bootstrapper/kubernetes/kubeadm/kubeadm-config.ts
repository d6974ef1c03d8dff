import { hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { kubeletConfiguration } from '../kubelet/kubelet-config.ts';
import { COMPONENT_CLIENTS, ROTATED_FILES } from '../credentials/key-files.ts';
import { apiEndpointOf, PATHS, type EtcdClientFiles, type KubernetesSettings } from '../settings.ts';
import { NEVER_ROTATED, type SharedKeyState, type StaticPod } from '../credentials/shared-keys.ts';

/**
 * The configuration kubeadm reads (kubeadm.k8s.io/v1beta4, kubelet.config.k8s.io/v1beta1, kubeproxy.config.k8s.io/v1alpha1).
 * JSON is YAML: no YAML writer in the agent.
 */
export function buildKubeadmConfig(
  settings: KubernetesSettings,
  etcd: EtcdClientFiles,
  life: StaticPodVariant = FIRST_VARIANT,
): string {
  const documents = [
    initConfiguration(settings),
    clusterConfiguration(settings, etcd, life),
    kubeletConfiguration(settings, life.keys),
    proxyConfiguration(),
  ];
  return documents.map((document) => JSON.stringify(document, undefined, 2)).join('\n---\n') + '\n';
}

const KUBEADM_API = 'kubeadm.k8s.io/v1beta4';
/** By it a static pod is known to run with the keys that are on disk. */
export const KEYS_VARIABLE = 'CLUSTER_KEYS';
/** By it one is another than that of an earlier time as a control plane. */
const GENERATION_VARIABLE = 'CLUSTER_TENURE';

/** What makes a static pod another one than before, and its life that of its own. */
export interface StaticPodVariant {
  readonly keys: SharedKeyState;
  readonly controlPlaneGeneration: string | undefined;
}

const FIRST_VARIANT: StaticPodVariant = { keys: NEVER_ROTATED, controlPlaneGeneration: undefined };

function initConfiguration(settings: KubernetesSettings): object {
  return {
    apiVersion: KUBEADM_API,
    kind: 'InitConfiguration',
    // An absent list would make kubeadm invent a token; one token is enough to get a certificate for any node's name.
    bootstrapTokens: [],
    localAPIEndpoint: { advertiseAddress: settings.nodeAddress, bindPort: PORTS.apiServer },
    nodeRegistration: {
      name: settings.nodeName,
      criSocket: `unix://${PATHS.containerdSocket}`,
      imagePullPolicy: 'IfNotPresent',
      // An absent list would be kubeadm's own taint; ours follows the roles (./ordinary-pods.ts).
      taints: [],
      kubeletExtraArgs: [{ name: 'node-ip', value: settings.nodeAddress }],
    },
  };
}

function clusterConfiguration(
  settings: KubernetesSettings,
  etcd: EtcdClientFiles,
  life: StaticPodVariant,
): object {
  const { podDigests: digests } = life.keys;
  return {
    apiVersion: KUBEADM_API,
    kind: 'ClusterConfiguration',
    clusterName: settings.clusterName,
    kubernetesVersion: settings.version,
    // Making RSA keys would take longer than everything else in the phase.
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
        settings.nodeAddress,
        ...settings.apiServerSans,
        ...(settings.apiEndpoint === undefined ? [] : [hostOf(settings.apiEndpoint)]),
      ],
      extraArgs: [
        { name: 'encryption-provider-config', value: PATHS.encryption },
        { name: 'encryption-provider-config-automatic-reload', value: 'true' },
        // Removed nodes are refused before Kubernetes' own authorizers (./authorization.ts).
        { name: 'authorization-config', value: PATHS.authorization },
        // What pods may ask of the machines (./admission.ts).
        { name: 'admission-control-config-file', value: PATHS.admission },
        // Without it nothing proves that a kubelet is the one that was asked for (logs, exec, metrics).
        { name: 'kubelet-certificate-authority', value: `${PATHS.pki}/ca.crt` },
        // One token would be enough for a certificate of any node's name: there are none, and none would be taken.
        { name: 'enable-bootstrap-token-auth', value: 'false' },
        { name: 'profiling', value: 'false' },
        ...(digests === undefined ? [] : CLIENT_AUTHORITIES),
      ],
      ...startsAnew('kube-apiserver', life),
      extraVolumes: [
        volume('encryption', folderOf(PATHS.encryption)),
        volume('authorization', folderOf(PATHS.authorization)),
        volume('admission', folderOf(PATHS.admission)),
      ],
    },
    controllerManager: controllerManager(life),
    scheduler: {
      extraArgs: [{ name: 'profiling', value: 'false' }],
      ...startsAnew('kube-scheduler', life),
      extraVolumes: [volume('client-certificate', COMPONENT_CLIENTS.scheduler.folder)],
    },
  };
}

function controllerManager(life: StaticPodVariant): object {
  return {
    extraArgs: [
      // kubeadm would add those that serve tokens.
      { name: 'controllers', value: '*' },
      { name: 'profiling', value: 'false' },
      // It asks for a token for each of its controllers before the first one works: at its default pace (20 a second) the
      // first pods of a cluster wait seconds for that. The API server guards itself (priority and fairness).
      { name: 'kube-api-qps', value: '100' },
      { name: 'kube-api-burst', value: '200' },
      ...(life.keys.podDigests === undefined ? [] : [...CLIENT_AUTHORITIES, ...SIGNS_REQUESTS]),
    ],
    ...startsAnew('kube-controller-manager', life),
    extraVolumes: [volume('client-certificate', COMPONENT_CLIENTS['controller-manager'].folder)],
  };
}

/** Whom of their clients API server and controller manager believe: both follow these files. */
const CLIENT_AUTHORITIES = [
  { name: 'client-ca-file', value: ROTATED_FILES.clientsTrustBundle },
  { name: 'requestheader-client-ca-file', value: ROTATED_FILES.frontProxyTrustBundle },
];

/** Who signs what the cluster's users ask to have signed: for clients the one, for servers the other. */
const SIGNS_REQUESTS = [
  // kubeadm's one for all, which may not be there beside those for each.
  { name: 'cluster-signing-cert-file', value: '' },
  { name: 'cluster-signing-key-file', value: '' },
  ...['kube-apiserver-client', 'kubelet-client'].flatMap((name) =>
    signsRequests(name, ROTATED_FILES.issuerCert, ROTATED_FILES.issuerKey),
  ),
  ...['kubelet-serving', 'legacy-unknown'].flatMap((name) =>
    signsRequests(name, `${PATHS.pki}/ca.crt`, `${PATHS.pki}/ca.key`),
  ),
];

function signsRequests(name: string, certFile: string, keyFile: string): readonly object[] {
  return [
    { name: `cluster-signing-${name}-cert-file`, value: certFile },
    { name: `cluster-signing-${name}-key-file`, value: keyFile },
  ];
}

/** Another value makes another static pod, which the kubelet starts anew; the same ones leave it alone. */
function startsAnew(pod: StaticPod, { keys, controlPlaneGeneration: tenure }: StaticPodVariant): object {
  const values = { [KEYS_VARIABLE]: keys.podDigests?.[pod], [GENERATION_VARIABLE]: tenure };
  const extraEnvs = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value }],
  );
  return extraEnvs.length === 0 ? {} : { extraEnvs };
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}

function volume(name: string, path: string): object {
  return { name, hostPath: path, mountPath: path, readOnly: true, pathType: 'Directory' };
}

function proxyConfiguration(): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    // nf_conntrack_max belongs to the machine (and is read-only in a network namespace); kube-proxy leaves it alone.
    conntrack: { maxPerCore: 0, min: 0 },
  };
}
