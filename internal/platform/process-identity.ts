import { FileError, type FilePort } from '../file/index.ts';

const MAX_BYTES = 8192;

/**
 * A process that can be told from every other one that ever ran on any machine: process ids come back, and so do
 * clocks; start times in ticks since boot and boot ids do not.
 */
export interface ProcessIdentity {
  readonly pid: number;
  /** Ticks since boot, from /proc/PID/stat (proc(5), field 22). */
  readonly startTicks: string;
  readonly bootId: string;
  readonly machineId: string;
}

/** Who this process is; undefined where there is no /proc. */
export async function currentProcessIdentity(files: FilePort): Promise<ProcessIdentity | undefined> {
  const stat = await processStat(files, 'self');
  const bootId = await readLine(files, '/proc/sys/kernel/random/boot_id');
  if (stat === undefined || bootId === undefined) return undefined;
  return { ...stat, bootId, machineId: await machineId(files) };
}

/** Whether that process still runs; `unknown` when it is on another machine. */
export async function processStatus(
  files: FilePort,
  other: ProcessIdentity,
): Promise<'alive' | 'dead' | 'unknown'> {
  const bootId = await readLine(files, '/proc/sys/kernel/random/boot_id');
  if (bootId === undefined || (await machineId(files)) !== other.machineId) return 'unknown';
  if (bootId !== other.bootId) return 'dead';
  const stat = await processStat(files, String(other.pid));
  return stat?.startTicks === other.startTicks ? 'alive' : 'dead';
}

async function processStat(
  files: FilePort,
  pid: string,
): Promise<Pick<ProcessIdentity, 'pid' | 'startTicks'> | undefined> {
  const line = await readLine(files, `/proc/${pid}/stat`).catch(undefinedIfEnded);
  // The second field is the program's name in parentheses and may hold anything, parentheses included.
  const rest = line?.slice(line.lastIndexOf(')') + 2).split(' ');
  const [own] = line?.split(' ') ?? [];
  const startTicks = rest?.[19];
  return own === undefined || startTicks === undefined ? undefined : { pid: Number(own), startTicks };
}

/** A process that ends between open(2) and read(2) of its file answers ESRCH. */
function undefinedIfEnded(error: unknown): undefined {
  if (error instanceof FileError && error.details['errno'] === 'ESRCH') return undefined;
  throw error;
}

async function machineId(files: FilePort): Promise<string> {
  return (await readLine(files, '/etc/machine-id')) ?? (await readLine(files, '/etc/hostname')) ?? '';
}

async function readLine(files: FilePort, path: string): Promise<string | undefined> {
  const raw = await files.read(path, MAX_BYTES);
  return raw === undefined ? undefined : Buffer.from(raw).toString('utf8').trim();
}
