/** Where a cluster and its nodes keep what they have, below `<data>/mini/<name>`. */
export interface ClusterPaths {
  readonly directory: string;
  readonly launch: string;
  readonly manufacturer: string;
  readonly nodes: string;
  readonly workspace: string;
}

export function clusterPaths(directory: string): ClusterPaths {
  return {
    directory,
    launch: `${directory}/launch`,
    manufacturer: `${directory}/tpm-manufacturer`,
    nodes: `${directory}/nodes`,
    workspace: `${directory}/workspace`,
  };
}

export interface NodePaths {
  readonly directory: string;
  readonly record: string;
  /** The node's own part of its root file system, and overlayfs's working directory. */
  readonly upper: string;
  readonly work: string;
  readonly merged: string;
  /** What must not lie on an overlay, or is to be looked at from outside. */
  readonly data: string;
  /** Shown in the node as /usr/lib/cluster-mini. */
  readonly machine: string;
  readonly tpm: string;
  readonly console: string;
}

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
  };
}

/** Directories of `data`, where they are mounted in the node, and their mode. overlayfs cannot lie on overlayfs, hence the first two. */
export const DATA_DIRECTORIES = [
  { name: 'containerd', target: '/var/lib/containerd', mode: 0o711 },
  { name: 'kubelet', target: '/var/lib/kubelet', mode: 0o750 },
  { name: 'cluster', target: '/var/lib/cluster', mode: 0o700 },
  { name: 'opt', target: '/opt/cluster', mode: 0o755 },
  { name: 'log', target: '/var/log', mode: 0o755 },
] as const;
