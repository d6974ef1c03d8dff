import { createHash } from 'node:crypto';
import type { HostPorts } from '../host/host-ports.ts';
import { waitForLock } from '../host-lock.ts';
import { pruneCache } from './prune-cache.ts';
import { launchScript } from '../node/node-scripts.ts';

const MAX_PACKAGE_BYTES = 1024 * 1024 * 1024;
/** How long to wait while another process installs the agent: usually seconds, longer on a busy machine. */
const OTHERS_MS = 5 * 60_000;

/**
 * Installs the agent into an overlay on the root file system, shared by all nodes with this build: dpkg installs the real Debian package
 * with its scripts. Returns the directory, whose name is a hash of package and root file system.
 */
export async function ensureAgentLayer(
  host: HostPorts,
  options: {
    /** `<cache>/layers`. */
    readonly directory: string;
    readonly rootfs: string;
    readonly packagePath: string;
    readonly onProgress: (text: string) => void;
    readonly signal: AbortSignal;
  },
): Promise<string> {
  const { directory, rootfs, packagePath, onProgress, signal } = options;
  const bytes = await host.files.read(packagePath, MAX_PACKAGE_BYTES);
  if (bytes === undefined) throw new TypeError(`installing ${packagePath}: file not found`);
  const key = createHash('sha256').update(bytes).update(rootfs).digest('hex').slice(0, 16);
  const target = `${directory}/${key}`;
  if ((await host.files.stat(target)) !== undefined) return target;
  await using _lock = await waitForLock(`layer ${target}`, {
    clock: host.clock,
    limitMs: OTHERS_MS,
    onWait: () => onProgress('another command is installing the same package'),
    signal,
  });
  if ((await host.files.stat(target)) !== undefined) return target;
  const partial = `${target}.partial`;
  await host.files.remove(partial);
  for (const sub of ['upper', 'work', 'merged']) await host.files.makeDirectory(`${partial}/${sub}`, 0o755);
  await host.files.writeAtomic(`${partial}/launch`, launchScript);
  await host.commands.run({
    argv: installArgv({ partial, rootfs, packagePath }),
    env: {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      DEBIAN_FRONTEND: 'noninteractive',
      LC_ALL: 'C.UTF-8',
    },
    signal,
  });
  await host.files.rename(`${partial}/upper`, target);
  await host.files.remove(partial);
  await pruneCache(host, { directory, keep: target });
  return target;
}

/** dpkg in its own namespaces, which end with this process. The overlay is mounted only there. */
export function installArgv(options: {
  readonly partial: string;
  readonly rootfs: string;
  readonly packagePath: string;
}): readonly [string, ...string[]] {
  const { partial, rootfs, packagePath } = options;
  // prettier-ignore
  return [
    'setpriv', '--pdeathsig', 'KILL',
    'unshare', '--pid', '--fork', '--kill-child', '--mount', '--mount-proc', '--propagation', 'slave', '--',
    'sh', `${partial}/launch`, '-m', overlayOptions([rootfs], `${partial}/upper`, `${partial}/work`), `${partial}/merged`, '--',
    'dpkg', `--root=${partial}/merged`, '--force-unsafe-io', '--install', packagePath,
  ];
}

/** The mount options of an overlay; `lower` from top to bottom. */
export function overlayOptions(lower: readonly string[], upper: string, work: string): string {
  return `lowerdir=${lower.join(':')},upperdir=${upper},workdir=${work}`;
}
