import type { FilePort } from '../file/index.ts';
import { readMounts } from '../platform/index.ts';
import type { Check } from './check.ts';
import { kernelSettings } from './collect-kernel-facts.ts';
import { resolvConf } from './collect-machine-facts.ts';
import { preflightErrors } from './errors.ts';
import { fileSystems, findUnwritable, type UnwritableFileSystem } from './file-systems.ts';
import { findWireguard } from './find-wireguard.ts';
import { KERNEL_SETTING_CHECKS, wireguard } from './kernel-checks.ts';
import { swap } from './machine-checks.ts';
import type { MachineFacts } from './machine-facts.ts';
import { dns, families } from './name-checks.ts';
import { WRITABLE_DIRECTORIES } from './node-requirements.ts';

/** The addresses of the machine and its own address as a node, and what the networks of the cluster need. */
export interface NodeNetwork extends Pick<MachineFacts, 'families' | 'addresses' | 'configuredAddress'> {
  /** The network of pods is encrypted. */
  readonly needsWireguard: boolean;
}

/** The facts of a machine that can change while it is a node, and that cost nothing to read. */
export interface RunningFacts extends Pick<
  MachineFacts,
  | 'swaps'
  | 'modules'
  | 'sysctls'
  | 'cgroup'
  | 'allowsCgroupV1'
  | 'resolvConf'
  | 'wireguard'
  | Exclude<keyof NodeNetwork, 'needsWireguard'>
> {
  /** File systems of `WRITABLE_DIRECTORIES` to which nothing can be written. */
  readonly unwritable: readonly UnwritableFileSystem[];
}

/** The checks of a machine that a running node repeats. A problem comes before the problems that it causes. */
export const RUNNING_CHECKS: readonly Check<RunningFacts>[] = (
  [
    ['preflight-read-only', fileSystems],
    ['preflight-swap', swap],
    ['preflight-address-family', families],
    ...KERNEL_SETTING_CHECKS,
    ['preflight-wireguard', wireguard],
    ['preflight-dns', dns],
  ] as const
).map(([code, observe]) => ({ code, fix: preflightErrors[code].fix, observe }));

/** Reads the facts for `RUNNING_CHECKS`: about ten small files and the list of mounts. Starts no process, and writes nothing. */
export async function collectRunningFacts(
  files: FilePort,
  { allowsCgroupV1, needsWireguard, ...node }: Pick<MachineFacts, 'allowsCgroupV1'> & NodeNetwork,
): Promise<RunningFacts> {
  return {
    ...(await kernelSettings(files)),
    resolvConf: await resolvConf(files),
    unwritable: findUnwritable(await readMounts(files), WRITABLE_DIRECTORIES),
    wireguard: needsWireguard ? await findWireguard(files) : undefined,
    allowsCgroupV1,
    ...node,
  };
}
