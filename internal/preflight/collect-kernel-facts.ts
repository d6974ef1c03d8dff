import { readText, type FilePort } from '../file/index.ts';
import type { MachineFacts } from './machine-facts.ts';
import { REQUIRED_MODULES, REQUIRED_SYSCTLS, sysctlPath } from './node-requirements.ts';

/** Exists when br_netfilter is loaded or built in; /sys/module does not list built-in modules. */
const BRIDGE_FILE = '/proc/sys/net/bridge/bridge-nf-call-iptables';
const CGROUP_V2_FILE = '/sys/fs/cgroup/cgroup.controllers';

type KernelFacts = Pick<
  MachineFacts,
  'swaps' | 'kernelRelease' | 'modules' | 'sysctls' | 'cgroup' | 'memoryBytes' | 'processors'
>;

/** The settings of the kernel that can change while a node runs: a few small files of /proc and /sys. */
export async function kernelSettings(
  files: FilePort,
): Promise<Pick<MachineFacts, 'swaps' | 'modules' | 'sysctls' | 'cgroup'>> {
  return {
    swaps: (await readText(files, '/proc/swaps')) ?? '',
    modules: await modules(files),
    sysctls: await sysctls(files),
    cgroup: await cgroup(files),
  };
}

/** The facts about the kernel in /proc and /sys. Covers the parameters and modules of node-requirements.ts. */
export async function kernelFacts(files: FilePort): Promise<KernelFacts> {
  const text = async (path: string): Promise<string> => (await readText(files, path)) ?? '';
  return {
    ...(await kernelSettings(files)),
    kernelRelease: (await text('/proc/sys/kernel/osrelease')).trim(),
    memoryBytes: memoryBytes(await text('/proc/meminfo')),
    processors: (await text('/proc/cpuinfo')).match(/^processor\s*:/gm)?.length ?? 1,
  };
}

async function modules(files: FilePort): Promise<ReadonlySet<string>> {
  const fileSystems = (await readText(files, '/proc/filesystems')) ?? '';
  const seen: Readonly<Record<string, boolean>> = {
    overlay: /\toverlay$/m.test(fileSystems),
    br_netfilter: (await files.stat(BRIDGE_FILE)) !== undefined,
  };
  return new Set(REQUIRED_MODULES.map(({ module }) => module).filter((module) => seen[module] === true));
}

async function sysctls(files: FilePort): Promise<MachineFacts['sysctls']> {
  const entries = Object.keys(REQUIRED_SYSCTLS).map(async (key) => {
    return [key, (await readText(files, sysctlPath(key)))?.trim()] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** The controllers: cgroup v2 lists them in a file of its own, v1 in /proc/cgroups (cgroups(7)). */
async function cgroup(files: FilePort): Promise<MachineFacts['cgroup']> {
  const unified = await readText(files, CGROUP_V2_FILE);
  if (unified !== undefined) return { version: 2, controllers: unified.trim().split(/\s+/).sort() };
  const lines = ((await readText(files, '/proc/cgroups')) ?? '')
    .split('\n')
    .filter((line) => /^\w/.test(line));
  const enabled = lines.map((line) => line.split(/\s+/)).filter(([, , , isEnabled]) => isEnabled === '1');
  return { version: 1, controllers: enabled.map(([name = '']) => name).sort() };
}

function memoryBytes(meminfo: string): number {
  return Number(/^MemTotal:\s+(\d+) kB/m.exec(meminfo)?.[1] ?? 0) * 1024;
}
