import type { FilePort } from '../file/index.ts';
import { readMounts } from '../platform/index.ts';
import type { Check } from './check.ts';
import { kernelSettings } from './collect-kernel-facts.ts';
import { resolvConf } from './collect-machine-facts.ts';
import { preflightErrors } from './errors.ts';
import { fileSystems, findUnwritable, type UnwritableFileSystem } from './file-systems.ts';
import { KERNEL_SETTING_CHECKS } from './kernel-checks.ts';
import { swap } from './machine-checks.ts';
import type { MachineFacts } from './machine-facts.ts';
import { dns, families } from './name-checks.ts';
import { WRITABLE_DIRECTORIES } from './node-requirements.ts';

/** The addresses of the machine, its own address as a node, and the IP families that it needs. */
export type NodeFamilies = Pick<MachineFacts, 'families' | 'addresses' | 'configuredAddress'>;

/** The facts of a machine that can change while it is a node, and that cost nothing to read. */
export interface RunningFacts extends Pick<
  MachineFacts,
  'swaps' | 'modules' | 'sysctls' | 'cgroup' | 'allowsCgroupV1' | 'resolvConf' | keyof NodeFamilies
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
    ['preflight-dns', dns],
  ] as const
).map(([code, observe]) => ({ code, fix: preflightErrors[code].fix, observe }));

/** Reads the facts for `RUNNING_CHECKS`: about ten small files and the list of mounts. Starts no process, and writes nothing. */
export async function collectRunningFacts(
  files: FilePort,
  { allowsCgroupV1, ...node }: Pick<MachineFacts, 'allowsCgroupV1'> & NodeFamilies,
): Promise<RunningFacts> {
  return {
    ...(await kernelSettings(files)),
    resolvConf: await resolvConf(files),
    unwritable: findUnwritable(await readMounts(files), WRITABLE_DIRECTORIES),
    allowsCgroupV1,
    ...node,
  };
}
