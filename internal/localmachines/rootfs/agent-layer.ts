import { createHash } from 'node:crypto';
import type { HostPorts } from '../host/host-ports.ts';
import { waitForLock } from '../host-lock.ts';
import { pruneCache } from './prune-cache.ts';
import { launchScript } from '../node/node-scripts.ts';

const MAX_PACKAGE_BYTES = 1024 * 1024 * 1024;
/** dpkg installs one package in seconds; a busy machine takes longer. */
const OTHERS_MS = 5 * 60_000;

/**
 * The agent on top of the root file system, shared by all nodes that run this build of it: the real
 * Debian package, installed by the real dpkg with its own scripts into an overlay. The directory is
 * named by what went into it.
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
  if (bytes === undefined) throw new TypeError(`installing ${packagePath}: there is no such file`);
  const key = createHash('sha256').update(bytes).update(rootfs).digest('hex').slice(0, 16);
  const target = `${directory}/${key}`;
  if ((await host.files.stat(target)) !== undefined) return target;
  await using _turn = await waitForLock(`layer ${target}`, {
    clock: host.clock,
    limitMs: OTHERS_MS,
    onWait: () => onProgress('another command installs the same package'),
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

/** dpkg in namespaces of its own that die with this process; the overlay is mounted in there only. */
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

/** Lower directories from top to bottom. */
export function overlayOptions(lower: readonly string[], upper: string, work: string): string {
  return `lowerdir=${lower.join(':')},upperdir=${upper},workdir=${work}`;
}
