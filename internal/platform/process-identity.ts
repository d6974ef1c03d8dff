import { FileError, readText, type FilePort } from '../file/index.ts';

/**
 * Identifies one process among all that ever ran on any machine. Process ids are reused and clocks are set back, but the start time
 * in ticks since boot together with the boot id is unique.
 */
export interface ProcessIdentity {
  readonly pid: number;
  /** Ticks since boot, from /proc/PID/stat (proc(5), field 22). */
  readonly startTicks: string;
  readonly bootId: string;
  readonly machineId: string;
}

/** The identity of this process; undefined without /proc. */
export async function currentProcessIdentity(files: FilePort): Promise<ProcessIdentity | undefined> {
  const stat = await processStat(files, 'self');
  const bootId = await readLine(files, '/proc/sys/kernel/random/boot_id');
  if (stat === undefined || bootId === undefined) return undefined;
  return { ...stat, bootId, machineId: await machineId(files) };
}

/** Whether the process still runs; `unknown` when it is on another machine. */
export async function processStatus(
  files: FilePort,
  other: ProcessIdentity,
): Promise<'running' | 'exited' | 'unknown'> {
  const bootId = await readLine(files, '/proc/sys/kernel/random/boot_id');
  if (bootId === undefined || (await machineId(files)) !== other.machineId) return 'unknown';
  if (bootId !== other.bootId) return 'exited';
  const stat = await processStat(files, String(other.pid));
  return stat?.startTicks === other.startTicks ? 'running' : 'exited';
}

async function processStat(
  files: FilePort,
  pid: string,
): Promise<Pick<ProcessIdentity, 'pid' | 'startTicks'> | undefined> {
  const line = await readLine(files, `/proc/${pid}/stat`).catch(undefinedIfEnded);
  // The second field is the name of the program in parentheses and may contain parentheses itself.
  const rest = line?.slice(line.lastIndexOf(')') + 2).split(' ');
  const [own] = line?.split(' ') ?? [];
  const startTicks = rest?.[19];
  return own === undefined || startTicks === undefined ? undefined : { pid: Number(own), startTicks };
}

/** read(2) fails with ESRCH when the process ends after open(2). */
function undefinedIfEnded(error: unknown): undefined {
  if (error instanceof FileError && error.details['errno'] === 'ESRCH') return undefined;
  throw error;
}

async function machineId(files: FilePort): Promise<string> {
  return (await readLine(files, '/etc/machine-id')) ?? (await readLine(files, '/etc/hostname')) ?? '';
}

async function readLine(files: FilePort, path: string): Promise<string | undefined> {
  return (await readText(files, path))?.trim();
}
