import type { BundleManifest } from '../../../internal/bundle/index.ts';

/**
 * The configuration of a person who follows the documentation of kubeadm: containerd with the systemd cgroup
 * driver, the kubelet's unit from the package of kubeadm, and one kubeadm configuration with stacked etcd.
 * Only the settings that a local machine needs (no negative OOM scores, cgroup v1) are taken from our own
 * configuration.
 */
export interface ManualConfiguration {
  readonly address: string;
  readonly nodeName: string;
  readonly kubernetesVersion: string;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  readonly pauseImage: string;
  /** Settings of a control plane of several machines; absent for a single machine that also runs workloads. */
  readonly shared?: SharedControlPlane;
}

/** Settings of `kubeadm init` with which further machines can join the control plane. */
export interface SharedControlPlane {
  /** "host:port" of the API for all nodes. */
  readonly endpoint: string;
  /** Key that encrypts the uploaded certificates, 32 bytes, hexadecimal. */
  readonly certificateKey: string;
  /**
   * Further arguments of the API server. `apiServerMounts` lists the directories of the machine that the API server
   * needs for these arguments.
   */
  readonly apiServerArguments: Readonly<Record<string, string>>;
  readonly apiServerMounts: readonly { readonly path: string; readonly isWritable: boolean }[];
}

export const BIN = '/opt/cluster/bin';
const CNI_BIN = '/opt/cni/bin';
const CNI_PLUGINS = ['bridge', 'loopback', 'portmap', 'host-local', 'flannel'];
const NOT_ON_MACHINES: readonly string[] = ['workstation'];
/** A stacked etcd runs from an image, so kubeadm needs no etcd programs. */
const NOT_FOR_KUBEADM = ['etcd', 'etcdctl', 'etcdutl'];
export const KUBEADM_CONFIG = '/etc/kubeadm.yaml';

export interface InstalledProgram {
  readonly sha256: string;
  readonly path: string;
}

/** The programs of the bundle that `kubeadm init` needs, with their target paths. */
export function programsOf({ components }: BundleManifest): readonly InstalledProgram[] {
  return components
    .filter(
      ({ kind, scope, name }) =>
        kind === 'binary' && !NOT_ON_MACHINES.includes(scope) && !NOT_FOR_KUBEADM.includes(name),
    )
    .map(({ name, sha256 }) => ({ sha256, path: `${CNI_PLUGINS.includes(name) ? CNI_BIN : BIN}/${name}` }));
}

/**
 * Hashes of all images of the bundle, including the image of the stacked etcd. `wanted` limits the result to the
 * images of this scope.
 */
export function imagesOf({ components }: BundleManifest, wanted?: 'node'): readonly string[] {
  return components
    .filter(({ kind, scope }) => kind === 'image' && (wanted === undefined || scope === wanted))
    .map(({ sha256 }) => sha256);
}

/** The content of each configuration file, by path. */
export function filesFor(hand: ManualConfiguration): Readonly<Record<string, string>> {
  return {
    '/etc/containerd/config.toml': containerdConfig(hand),
    '/etc/systemd/system/containerd.service': CONTAINERD_UNIT,
    '/etc/systemd/system/kubelet.service': KUBELET_UNIT,
    [KUBEADM_CONFIG]: kubeadmConfig(hand),
  };
}

const SEARCH_PATH = `Environment=PATH=${BIN}:/usr/sbin:/usr/bin:/sbin:/bin`;

const CONTAINERD_UNIT = `[Unit]
Description=containerd
After=network.target
[Service]
${SEARCH_PATH}
ExecStart=${BIN}/containerd --config /etc/containerd/config.toml
Type=notify
Delegate=yes
KillMode=process
Restart=always
`;

/** kubelet.service and 10-kubeadm.conf from the packages of kubeadm, merged. */
const KUBELET_UNIT = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target
[Service]
${SEARCH_PATH}
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=${BIN}/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
`;

function containerdConfig({ pauseImage }: ManualConfiguration): string {
  return `version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${pauseImage}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["${CNI_BIN}"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "${BIN}/runc"
      SystemdCgroup = true
`;
}

function kubeadmConfig(hand: ManualConfiguration): string {
  return `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: ${hand.address}, bindPort: 6443}
nodeRegistration:
  name: ${hand.nodeName}
  criSocket: unix:///run/containerd/containerd.sock
  imagePullPolicy: IfNotPresent
  kubeletExtraArgs: [{name: node-ip, value: ${hand.address}}]
${hand.shared === undefined ? '  taints: []' : `certificateKey: ${hand.shared.certificateKey}`}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
${hand.shared === undefined ? '' : sharedSettings(hand.shared)}kubernetesVersion: ${hand.kubernetesVersion}
networking: {podSubnet: ${hand.podSubnet}, serviceSubnet: ${hand.serviceSubnet}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failCgroupV1: false
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
conntrack: {maxPerCore: 0, min: 0}
`;
}

function sharedSettings(shared: SharedControlPlane): string {
  const extraArgs = Object.entries(shared.apiServerArguments).map(([name, value]) => ({ name, value }));
  const extraVolumes = shared.apiServerMounts.map(({ path, isWritable }, index) => ({
    ...{ name: `extra-${index}`, hostPath: path, mountPath: path },
    ...{ readOnly: !isWritable, pathType: 'DirectoryOrCreate' },
  }));
  return `controlPlaneEndpoint: "${shared.endpoint}"\napiServer: ${JSON.stringify({ extraArgs, extraVolumes })}\n`;
}

/**
 * Converts the output of `kubeadm token create --print-join-command` to a configuration for a machine at this address: a
 * control plane if it has the key of the uploaded certificates, otherwise a worker.
 */
export function joinConfig(
  command: string,
  machine: { readonly address: string; readonly nodeName: string },
  certificateKey?: string,
): string {
  const found = /kubeadm join (\S+) --token (\S+) --discovery-token-ca-cert-hash (\S+)/.exec(command);
  if (found === null) throw new Error(`kubeadm printed no join command: ${command}`);
  const [, endpoint, token, hash] = found;
  const controlPlane =
    certificateKey === undefined
      ? ''
      : `controlPlane: {certificateKey: ${certificateKey}, localAPIEndpoint: {advertiseAddress: ${machine.address}}}\n`;
  return `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {apiServerEndpoint: "${endpoint}", token: "${token}", caCertHashes: ["${hash}"]}}
nodeRegistration:
  name: ${machine.nodeName}
  criSocket: unix:///run/containerd/containerd.sock
  imagePullPolicy: IfNotPresent
  kubeletExtraArgs: [{name: node-ip, value: ${machine.address}}]
${controlPlane}`;
}
