import { readText } from '../../file/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { clusterPaths, nodePaths } from '../node/node-paths.ts';
import { parseLocalNodeRecord } from '../node/node-record.ts';
import { readClaims } from '../network/cluster-numbers.ts';

/** Long enough for a directory that was just made to get into its first node's record. */
const YOUNG_MS = 60 * 60 * 1000;

/**
 * Removes cached directories that no node of this machine stands on any more: each build of the agent
 * makes a new layer, and nobody else would ever take the old ones away. `keep` is spared, and so is
 * what is young.
 */
export async function pruneCache(
  host: HostPorts,
  options: { readonly directory: string; readonly keep: string },
): Promise<void> {
  const used = await usedDirectories(host);
  const oldest = host.clock.nowMs() - YOUNG_MS;
  for (const name of await host.files.list(options.directory)) {
    const path = `${options.directory}/${name}`;
    if (path === options.keep || used.has(path)) continue;
    const stat = await host.files.stat(path);
    if (stat?.kind === 'directory' && stat.modifiedMs < oldest) await host.files.remove(path);
  }
}

/** The lower directories of all nodes of all clusters of this machine, whoever made them. */
async function usedDirectories(host: HostPorts): Promise<ReadonlySet<string>> {
  const used = new Set<string>();
  for (const directory of (await readClaims(host)).values()) {
    const cluster = clusterPaths(directory);
    for (const name of await host.files.list(cluster.nodes)) {
      const path = nodePaths(cluster, name).record;
      const text = await readText(host.files, path);
      if (text === undefined) continue; // half-made: its directory is younger than we look back
      for (const layer of parseLocalNodeRecord(path, new TextEncoder().encode(text)).layers) used.add(layer);
    }
  }
  return used;
}
