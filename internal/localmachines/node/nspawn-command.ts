import { overlayOptions } from '../rootfs/agent-layer.ts';
import { machineName } from '../network/names.ts';
import { namespaceFile, type NodeNetwork } from '../network/cluster-network.ts';
import { DATA_DIRECTORIES, type ClusterPaths, type NodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';

/** Where the machine's own files are shown in a node. */
export const MACHINE_DIRECTORY_IN_NODE = '/usr/lib/cluster-mini';

/** systemd-nspawn's way to talk to a real node's systemd: an orderly power-off. */
export const POWER_OFF_SIGNAL = 37; // SIGRTMIN+3, systemd(1)

/** The node's command line: a private mount namespace with its root file system, then the container in it. */
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
    // In here the overlay is seen by the node alone and goes when the node goes: nothing to unmount on the host.
    'unshare', '--mount', '--propagation', 'slave', '--',
    'sh', cluster.launch, '-m', overlay, node.merged, '--',
    // A kubelet needs /sys and /proc/sys writable, all capabilities and all system calls.
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

/** The command line that runs a program in a node: its namespaces, a clean environment. */
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

/**
 * The same program at a terminal of its own (script(1)): keys go to it as they are, so that Ctrl-C is
 * for the program in the machine and not for us.
 */
export function atTerminal(argv: readonly string[]): readonly [string, ...string[]] {
  const command = argv.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  return ['script', '--quiet', '--return', '--command', `exec ${command}`, '/dev/null'];
}
