import { KUBELET_CLIENTS_CA, KUBELET_FILES } from '../credentials/key-files.ts';
import { CLUSTER_DOMAIN, serviceAddressIn } from '../service-network.ts';
import { PATHS, type KubernetesSettings } from '../settings.ts';
import type { SharedKeyState } from '../credentials/shared-keys.ts';

/** Where the kubelet's unit looks (./units.ts): kubeadm's places, where who knows kubeadm looks first. */
export const KUBELET_CONFIG = '/var/lib/kubelet/config.yaml';
export const KUBELET_FLAGS = '/var/lib/kubelet/kubeadm-flags.env';

type KubeletSettings = Pick<KubernetesSettings, 'serviceSubnet' | 'host'>;

/** kubelet.config.k8s.io/v1beta1. What is not said is the kubelet's own default. */
export function kubeletConfiguration(
  { serviceSubnet, host }: KubeletSettings,
  { hasKubeletClientsCa: forKubelet }: Pick<SharedKeyState, 'hasKubeletClientsCa'>,
): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    cgroupDriver: 'systemd',
    failCgroupV1: host.failCgroupV1,
    containerRuntimeEndpoint: `unix://${PATHS.containerdSocket}`,
    staticPodPath: PATHS.manifests,
    clusterDNS: [serviceAddressIn(serviceSubnet, 'dns')],
    clusterDomain: CLUSTER_DOMAIN,
    // The agent renews: a kubelet that renews by itself would need a signer that anyone with its key can ask.
    rotateCertificates: false,
    serverTLSBootstrap: false,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: forKubelet ? KUBELET_CLIENTS_CA : KUBELET_FILES.ca },
    },
    authorization: { mode: 'Webhook' },
    // Read anew when they change, but not for who calls by address (./kubelet-serving.ts).
    tlsCertFile: KUBELET_FILES.servingCert,
    tlsPrivateKeyFile: KUBELET_FILES.servingKey,
    evictionHard: {
      'memory.available': '100Mi',
      'nodefs.available': '5%',
      'imagefs.available': '5%',
      'nodefs.inodesFree': '5%',
    },
  };
}

/**
 * The files of one node's kubelet, by path. We write them and not kubeadm: a worker needs none of its 73 MB for two small
 * files, its defaulting turns `rotateCertificates: false` into true, and it makes systemd read all units again.
 * @param resolvConf what pods resolve names with, where /etc/resolv.conf names a resolver of this machine alone
 */
export function kubeletFiles(
  settings: KubeletSettings & Pick<KubernetesSettings, 'nodeName' | 'nodeAddress'>,
  keys: Pick<SharedKeyState, 'hasKubeletClientsCa'>,
  resolvConf: string | undefined,
): Readonly<Record<string, string>> {
  const config = {
    ...kubeletConfiguration(settings, keys),
    ...(resolvConf === undefined ? {} : { resolvConf }),
  };
  const flags = [`--hostname-override=${settings.nodeName}`, `--node-ip=${settings.nodeAddress}`];
  return {
    [KUBELET_CONFIG]: `${JSON.stringify(config, undefined, 2)}\n`,
    [KUBELET_FLAGS]: `KUBELET_KUBEADM_ARGS="${flags.join(' ')}"\n`,
  };
}
