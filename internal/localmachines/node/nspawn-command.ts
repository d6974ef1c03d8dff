import { overlayOptions } from '../rootfs/agent-layer.ts';
import { machineName } from '../network/names.ts';
import { namespaceFile, type NodeNetwork } from '../network/cluster-network.ts';
import { DATA_DIRECTORIES, type ClusterPaths, type NodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';

/** Where a node sees `NodePaths.machine`. */
export const MACHINE_DIRECTORY_IN_NODE = '/usr/lib/cluster-mini';

/** The signal that makes the systemd of a node shut down. */
export const POWER_OFF_SIGNAL = 37; // SIGRTMIN+3, systemd(1)

/** The argv of a node: a private mount namespace with its root file system, and the container in it. */
export function nspawnArgv(options: {
  readonly network: NodeNetwork;
  readonly cluster: ClusterPaths;
  readonly node: NodePaths;
  readonly record: LocalNodeRecord;
}): readonly string[] {
  const { network, cluster, node, record } = options;
  const overlay = overlayOptions(record.layers, node.upper, node.work);
  // prettier-ignore
  return [
    // The overlay is visible in this namespace only and disappears with the node.
    'unshare', '--mount', '--propagation', 'slave', '--',
    'sh', cluster.launch, '-m', overlay, node.merged, '--',
    // The kubelet needs a writable /sys and /proc/sys, all capabilities and all system calls.
    'env', 'SYSTEMD_NSPAWN_API_VFS_WRITABLE=1', 'SYSTEMD_SECCOMP=0',
    'systemd-nspawn', '--quiet', '--keep-unit', '--register=no',
    `--directory=${node.merged}`,
    `--machine=${machineName(network.number, record.name)}`,
    `--hostname=${record.name}`,
    `--network-namespace-path=${namespaceFile(network, record.name)}`,
    '--capability=all', '--kill-signal=SIGRTMIN+3',
    '--resolv-conf=off', '--timezone=off', '--link-journal=no', '--console=pipe',
    ...DATA_DIRECTORIES.map(({ name, target }) => `--bind=${node.data}/${name}:${target}`),
    `--bind=${node.tpm}/run:/run/cluster-tpm`,
    `--bind-ro=${node.machine}:${MACHINE_DIRECTORY_IN_NODE}`,
    ...record.binds.map(({ source, target, readOnly }) => `--bind${readOnly ? '-ro' : ''}=${source}:${target}`),
    'sh', `${MACHINE_DIRECTORY_IN_NODE}/node-init`,
  ];
}

/** The argv that runs a program in the namespaces of a node, with a clean environment. */
export function enterArgv(
  leader: number,
  program: readonly string[],
  env: Readonly<Record<string, string>>,
): readonly string[] {
  const clean = {
    PATH: '/opt/cluster/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    KUBECONFIG: '/etc/kubernetes/admin.conf',
    ...env,
  };
  // prettier-ignore
  return [
    'nsenter', '--target', String(leader), '--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup', '--',
    'env', '-i', ...Object.entries(clean).map(([name, value]) => `${name}=${value}`),
    ...program,
  ];
}

/** Runs the program at a terminal of its own (script(1)), so that Ctrl-C goes to the program in the machine. */
export function atTerminal(argv: readonly string[]): readonly [string, ...string[]] {
  const command = argv.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  return ['script', '--quiet', '--return', '--command', `exec ${command}`, '/dev/null'];
}
