import { METADATA_GUARD_UNIT } from './metadata-guard.ts';
import { KERNEL_DEFAULTS_FILE } from './kernel-defaults.ts';
import { PATHS, type HostSettings } from '../settings.ts';

/** Unit of containerd. */
export const CONTAINERD_UNIT = 'cluster-containerd.service';
/** Unit of the kubelet. */
export const KUBELET_UNIT = 'kubelet.service';

/** Drop-in for the scopes of all containers (systemd.unit(5), "prefix" drop-ins). */
export const CONTAINER_SCOPES_DROPIN = 'cri-containerd-.scope.d/50-cluster.conf';

/**
 * Makes containers stop before the services that they use. If etcd stopped before its API server, the
 * machine's shutdown would wait for the API server's timeout.
 */
export function buildContainerScopes(): string {
  return `[Unit]
After=cluster-etcd-kubernetes.service ${CONTAINERD_UNIT}

[Scope]
TimeoutStopSec=15s
`;
}

/** One slice below each slice in which the kubelet creates the cgroups of pods. */
export const PLACEHOLDER_SLICES = [
  'kubepods-besteffort-kept.slice',
  'kubepods-burstable-kept.slice',
] as const;

/**
 * A slice without processes that keeps its parent cgroup in the devices hierarchy of cgroup v1. systemd
 * removes empty cgroups from hierarchies that no unit uses, even while the kubelet creates the first pods of
 * a new node in them. The kubelet then fails with "mkdir: no such file" and retries the pod only after 10 s.
 */
export function buildPlaceholderSlice(): string {
  return `[Unit]
Description=Keeps the group of pods (cgroup v1)
ConditionControlGroupController=v1

[Slice]
DevicePolicy=closed
`;
}

/**
 * Builds the configuration of containerd 2.x (configuration version 3). Without `config_path`, containerd would take its default,
 * a list of two directories, for the name of one.
 */
export function buildContainerdConfig(options: {
  readonly pauseImage: string;
  readonly host: HostSettings;
}): string {
  return `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "${PATHS.containerdSocket}"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "${options.pauseImage}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "${PATHS.registries}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = ${options.host.restrictOomScoreAdj}
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["${PATHS.cniBin}"]
    conf_dir = "${PATHS.cniConfig}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "${PATHS.bin}/runc"
      SystemdCgroup = true
`;
}

/**
 * containerd keeps running when the agent stops, and containers keep running when containerd stops
 * (KillMode=process).
 */
export function buildContainerdUnit(): string {
  return `[Unit]
Description=containerd (cluster)
After=network.target local-fs.target
StartLimitIntervalSec=0

[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=${PATHS.bin}/containerd --config ${PATHS.containerdConfig}
Environment=PATH=${PATHS.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=2
LimitNPROC=infinity
LimitCORE=0
TasksMax=infinity
OOMScoreAdjust=-999
`;
}

/**
 * The unit of the kubelet, with the files of kubelet/kubelet-config.ts. The kubelet notifies the systemd
 * watchdog (pkg/kubelet/watchdog), so systemd kills and restarts a kubelet that hangs before the node lease
 * of 40 s expires. The unit uses SIGKILL because a process that SIGSTOP stopped handles no other signal.
 */
export function buildKubeletUnit(): string {
  const before = `network-online.target ${METADATA_GUARD_UNIT} ${PLACEHOLDER_SLICES.join(' ')}`;
  return `[Unit]
Description=kubelet (cluster)
After=${before} ${CONTAINERD_UNIT}
Wants=${before}
Requires=${CONTAINERD_UNIT}
StartLimitIntervalSec=0

[Service]
Environment=PATH=${PATHS.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStartPre=-/usr/lib/systemd/systemd-sysctl ${KERNEL_DEFAULTS_FILE}
ExecStart=${PATHS.bin}/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
KillMode=process
Restart=always
RestartSec=2
WatchdogSec=30s
WatchdogSignal=SIGKILL
LimitCORE=0
`;
}
