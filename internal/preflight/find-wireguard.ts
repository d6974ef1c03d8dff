import { readText, type FilePort } from '../file/index.ts';

/** Exists while the module is loaded, and if it is built in, because it has a version (linux, drivers/net/wireguard/main.c). */
const LOADED = '/sys/module/wireguard';
/** modules.dep(5), modules.builtin: a line for each module, whose file may be compressed. */
const MODULE = /^(?:\S*\/)?wireguard\.ko(?:\.\w+)?(?::|$)/m;
/** That of a kernel with all drivers has less than 1 MiB. */
const MAX_LIST_BYTES = 16 * 1024 * 1024;

/** Whether the kernel has WireGuard: it is there, or the kernel loads its module when flannel creates a link of it, or neither. */
export type WireguardSupport = 'loaded' | 'loadable' | 'missing';

/**
 * Finds WireGuard in the kernel that runs. Loads no module: only a node of a cluster with WireGuard needs it, and flannel has the
 * kernel load it.
 */
export async function findWireguard(files: FilePort): Promise<WireguardSupport> {
  if ((await files.stat(LOADED)) !== undefined) return 'loaded';
  const release = ((await readText(files, '/proc/sys/kernel/osrelease')) ?? '').trim();
  for (const list of ['modules.dep', 'modules.builtin']) {
    const text = await readText(files, `/lib/modules/${release}/${list}`, MAX_LIST_BYTES);
    if (text !== undefined && MODULE.test(text)) return 'loadable';
  }
  return 'missing';
}
