import { METADATA_GUARD_UNIT } from './metadata-guard.ts';
import { PATHS, type HostSettings } from '../settings.ts';

export const CONTAINERD_UNIT = 'cluster-containerd.service';
export const KUBELET_UNIT = 'kubelet.service';

/** A drop-in for every container's scope (systemd.unit(5), "prefix" drop-ins). */
export const CONTAINER_SCOPES_DROPIN = 'cri-containerd-.scope.d/50-cluster.conf';

/**
 * Containers stop before what they need: an API server whose etcd has gone first holds up a shutdown until it is cut.
 */
export function buildContainerScopes(): string {
  return `[Unit]
After=cluster-etcd-kubernetes.service ${CONTAINERD_UNIT}

[Scope]
TimeoutStopSec=15s
`;
}

/** One in each slice in which the kubelet makes pods' groups. */
export const PLACEHOLDER_SLICES = [
  'kubepods-besteffort-kept.slice',
  'kubepods-burstable-kept.slice',
] as const;

/**
 * Keeps the group around it in cgroup v1's hierarchy of devices. systemd takes empty groups out of hierarchies that none of
 * their units uses, also in the moment in which the kubelet makes a new node's first pods in there: "mkdir: no such file", and
 * the kubelet tries a pod again after ten seconds. This unit uses the hierarchy, for nobody.
 */
export function buildPlaceholderSlice(): string {
  return `[Unit]
Description=Keeps the group of pods (cgroup v1)
ConditionControlGroupController=v1

[Slice]
DevicePolicy=closed
`;
}

/** containerd 2.x configuration, version 3. */
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

/** containerd outlives the agent, and containers outlive containerd (KillMode=process). */
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
 * Its files are those of ./kubelet-config.ts. It tells systemd that it works (pkg/kubelet/watchdog): one that hangs is killed
 * and started again before its node's lease of 40 seconds has run out. A process that was stopped takes no other signal.
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
ExecStart=${PATHS.bin}/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
KillMode=process
Restart=always
RestartSec=2
WatchdogSec=30s
WatchdogSignal=SIGKILL
LimitCORE=0
`;
}
