import { KUBELET_CLIENTS_CA, KUBELET_FILES } from '../credentials/key-files.ts';
import { CLUSTER_DOMAIN, serviceAddressesIn } from '../service-network.ts';
import { hardeningOf, STRONG_CIPHERS, TLS_MIN_VERSION } from '../hardening.ts';
import { nodeAddressesOf, PATHS, type KubernetesSettings } from '../settings.ts';
import type { SharedKeyState } from '../credentials/shared-keys.ts';

/** Configuration file of the kubelet, at the path that kubeadm uses. */
export const KUBELET_CONFIG = '/var/lib/kubelet/config.yaml';
/** Environment file with flags of the kubelet, at the path that kubeadm uses. */
export const KUBELET_FLAGS = '/var/lib/kubelet/kubeadm-flags.env';

type KubeletSettings = Pick<KubernetesSettings, 'serviceSubnet' | 'host' | 'hardening' | 'extraArguments'>;

/**
 * Builds the KubeletConfiguration (kubelet.config.k8s.io/v1beta1). Settings that are not listed keep the
 * defaults of the kubelet.
 */
export function kubeletConfiguration(
  { serviceSubnet, host, hardening, extraArguments }: KubeletSettings,
  { hasKubeletClientsCa }: Pick<SharedKeyState, 'hasKubeletClientsCa'>,
): object {
  const { seccompDefault, podPidsLimit, strongCiphers } = hardeningOf({ hardening });
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    cgroupDriver: 'systemd',
    failCgroupV1: host.failCgroupV1,
    containerRuntimeEndpoint: `unix://${PATHS.containerdSocket}`,
    staticPodPath: PATHS.manifests,
    clusterDNS: [serviceAddressesIn(serviceSubnet, 'dns')[0]],
    clusterDomain: CLUSTER_DOMAIN,
    // The agent renews the certificates. For renewal by the kubelet, the cluster would need a signer that
    // anyone with the kubelet's key could call.
    rotateCertificates: false,
    serverTLSBootstrap: false,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: hasKubeletClientsCa ? KUBELET_CLIENTS_CA : KUBELET_FILES.ca },
    },
    authorization: { mode: 'Webhook' },
    // The kubelet reloads these files, except for clients that connect by address (serving-certificate.ts).
    tlsCertFile: KUBELET_FILES.servingCert,
    tlsPrivateKeyFile: KUBELET_FILES.servingKey,
    tlsMinVersion: TLS_MIN_VERSION,
    ...(strongCiphers ? { tlsCipherSuites: STRONG_CIPHERS } : {}),
    seccompDefault,
    podPidsLimit,
    // The unit sets these kernel parameters (node/kernel-defaults.ts). The kubelet only checks them.
    protectKernelDefaults: true,
    makeIPTablesUtilChains: true,
    readOnlyPort: 0,
    // The defaults of the kubelet, written down for auditors.
    streamingConnectionIdleTimeout: '4h0m0s',
    eventRecordQPS: 50,
    // The kubelet deletes unused images before it evicts pods. Images of the bundle are pinned. The kubelet never
    // evicts static pods, or pods with a system priority class.
    imageGCHighThresholdPercent: 85,
    imageGCLowThresholdPercent: 80,
    evictionHard: {
      'memory.available': '100Mi',
      'nodefs.available': '5%',
      'imagefs.available': '5%',
      'nodefs.inodesFree': '5%',
      'imagefs.inodesFree': '5%',
      'pid.available': '5%',
    },
    // Fields that the operator chose. The configuration schema does not allow any of the fields above.
    ...extraArguments?.kubelet,
  };
}

/**
 * Builds the files of the kubelet: their text by path. The agent writes these files instead of kubeadm. A
 * worker therefore does not need the 73 MB of kubeadm, which also changes `rotateCertificates: false` to true
 * and reloads systemd.
 * @param resolvConf resolver configuration for pods; undefined: /etc/resolv.conf
 */
export function kubeletFiles(
  settings: KubeletSettings &
    Pick<KubernetesSettings, 'nodeName' | 'nodeAddress' | 'secondaryAddress' | 'taints'>,
  keys: Pick<SharedKeyState, 'hasKubeletClientsCa'>,
  resolvConf: string | undefined,
): Readonly<Record<string, string>> {
  const config = {
    ...kubeletConfiguration(settings, keys),
    ...(resolvConf === undefined ? {} : { resolvConf }),
    // The kubelet uses this setting only when it creates its Node object, so no pod runs on the node before the taints
    // are set. Later, control planes copy the taints to the node (taints/declared-taints.ts).
    ...(settings.taints.length === 0 ? {} : { registerWithTaints: settings.taints }),
  };
  const flags = [
    `--hostname-override=${settings.nodeName}`,
    `--node-ip=${nodeAddressesOf(settings).join(',')}`,
  ];
  const labels = Object.entries(settings.host.topology ?? {}).map((each) => each.join('='));
  if (labels.length > 0) flags.push(`--node-labels=${labels.join(',')}`);
  return {
    [KUBELET_CONFIG]: `${JSON.stringify(config, undefined, 2)}\n`,
    [KUBELET_FLAGS]: `KUBELET_KUBEADM_ARGS="${flags.join(' ')}"\n`,
  };
}
