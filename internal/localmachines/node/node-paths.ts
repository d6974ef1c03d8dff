/** The files of a cluster, below `<data>/mini/<name>`. */
export interface ClusterPaths {
  readonly directory: string;
  readonly launch: string;
  readonly manufacturer: string;
  readonly nodes: string;
  readonly workspace: string;
  /** Files of the DHCP server of virtual machines. */
  readonly dhcp: string;
}

/** The paths of the cluster with this directory. */
export function clusterPaths(directory: string): ClusterPaths {
  return {
    directory,
    launch: `${directory}/launch`,
    manufacturer: `${directory}/tpm-manufacturer`,
    nodes: `${directory}/nodes`,
    workspace: `${directory}/workspace`,
    dhcp: `${directory}/dhcp`,
  };
}

/** The files of one node. */
export interface NodePaths {
  readonly directory: string;
  readonly record: string;
  /** The upper and the work directory of the node's overlay. */
  readonly upper: string;
  readonly work: string;
  readonly merged: string;
  /** Data that must not be on an overlay, or that the host reads. */
  readonly data: string;
  /** /usr/lib/cluster-mini in the node. */
  readonly machine: string;
  readonly tpm: string;
  readonly console: string;
  /** Disk and firmware variables of a virtual machine. */
  readonly vm: string;
}

/** The paths of one node of a cluster. */
export function nodePaths(cluster: ClusterPaths, name: string): NodePaths {
  const directory = `${cluster.nodes}/${name}`;
  return {
    directory,
    record: `${directory}/node.json`,
    upper: `${directory}/upper`,
    work: `${directory}/work`,
    merged: `${directory}/merged`,
    data: `${directory}/data`,
    machine: `${directory}/machine`,
    tpm: `${directory}/tpm`,
    console: `${directory}/console.log`,
    vm: `${directory}/vm`,
  };
}

/**
 * Directories of `data`, their mount points in the node, and their modes. Containers put overlays into the
 * first two, and an overlay cannot be on another overlay.
 */
export const DATA_DIRECTORIES = [
  { name: 'containerd', target: '/var/lib/containerd', mode: 0o711 },
  { name: 'kubelet', target: '/var/lib/kubelet', mode: 0o750 },
  { name: 'cluster', target: '/var/lib/cluster', mode: 0o700 },
  { name: 'opt', target: '/opt/cluster', mode: 0o755 },
  { name: 'log', target: '/var/log', mode: 0o755 },
] as const;
