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

/**
 * The processor time that a process has used, in ticks (proc(5), fields 14 and 15 of /proc/PID/stat); undefined if it does not run. It
 * does not change while the process is stopped.
 */
export async function processorTicks(files: FilePort, pid: number): Promise<number | undefined> {
  const [, fields] = (await statFields(files, String(pid))) ?? [];
  const ticks = Number(fields?.[11]) + Number(fields?.[12]);
  return Number.isFinite(ticks) ? ticks : undefined;
}

async function processStat(
  files: FilePort,
  pid: string,
): Promise<Pick<ProcessIdentity, 'pid' | 'startTicks'> | undefined> {
  const [own, fields] = (await statFields(files, pid)) ?? [];
  const startTicks = fields?.[19];
  return own === undefined || startTicks === undefined ? undefined : { pid: Number(own), startTicks };
}

/** The process id, and the fields of /proc/PID/stat from the third one on; undefined if the process does not run. */
async function statFields(
  files: FilePort,
  pid: string,
): Promise<readonly [own: string | undefined, fields: readonly string[]] | undefined> {
  const line = await readLine(files, `/proc/${pid}/stat`).catch(undefinedIfEnded);
  // The second field is the name of the program in parentheses and may contain parentheses itself.
  return line === undefined
    ? undefined
    : [line.split(' ')[0], line.slice(line.lastIndexOf(')') + 2).split(' ')];
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
