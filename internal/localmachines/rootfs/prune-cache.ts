import { readText } from '../../file/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { clusterPaths, nodePaths } from '../node/node-paths.ts';
import { parseLocalNodeRecord } from '../node/node-record.ts';
import { readClaims } from '../network/cluster-numbers.ts';

/** A younger directory may belong to a node whose record is not written yet. */
const YOUNG_MS = 60 * 60 * 1000;

/**
 * Removes the cached directories that no node of this machine uses: each build of the agent has its own layer. Keeps `keep` and
 * directories that are less than an hour old.
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

/** The lower directories of all nodes of all clusters of this machine. */
async function usedDirectories(host: HostPorts): Promise<ReadonlySet<string>> {
  const used = new Set<string>();
  for (const directory of (await readClaims(host)).values()) {
    const cluster = clusterPaths(directory);
    for (const name of await host.files.list(cluster.nodes)) {
      const path = nodePaths(cluster, name).record;
      const text = await readText(host.files, path);
      // A node that is being created has no record yet; its directories are younger than an hour and are kept.
      if (text === undefined) continue;
      for (const layer of parseLocalNodeRecord(path, new TextEncoder().encode(text)).layers) used.add(layer);
    }
  }
  return used;
}
