import { z } from 'zod';
import { describeError } from '../../errors/index.ts';
import { LocalMachineError } from '../errors.ts';
import { readText } from '../../file/index.ts';
import { output, type HostPorts } from './host-ports.ts';
import { waitForLock } from '../host-lock.ts';
import { NUMBERS_DIRECTORY, readClaims } from '../network/cluster-numbers.ts';

/**
 * systemd, containerd and the kubelet of each machine watch files, and the kernel counts the watchers of all machines
 * together. Linux allows 128, which is enough for one machine.
 */
const LIMIT = '/proc/sys/fs/inotify/max_user_instances';
const KERNEL_DEFAULT = 128;
const PER_MACHINE = 128;
/** Raised once for most clusters, and not again for each machine that is added. */
const COMFORTABLE = 1024;
const RECORD = `${NUMBERS_DIRECTORY}/inotify.json`;
const TURN_MS = 10_000;

const shape = z.strictObject({
  version: z.literal(1),
  /** What the limit was, and is to be again. */
  before: z.int(),
  /** What it was raised to. Any other value is somebody else's, and stays. */
  raised: z.int(),
  /** How many watchers the machines of each cluster need, by the cluster's directory. */
  needs: z.record(z.string(), z.int()),
});
type WatchRecord = z.infer<typeof shape>;

/**
 * Raises the limit as far as the machines of a cluster need it beside those of all others. What it was is on disk before it is
 * changed: whoever takes the last cluster away puts it back, also after a crash. @throws MachinesError `localmachines-preflight`
 */
export async function raiseInotifyLimit(
  host: HostPorts,
  cluster: { readonly directory: string; readonly machines: number; readonly signal: AbortSignal },
): Promise<void> {
  const { directory, machines, signal } = cluster;
  await using _turn = await turn(host, signal);
  const record = await readRecord(host);
  const others = await livingNeeds(host, record, directory);
  const limit = await readLimit(host);
  const needs = { ...others, [directory]: PER_MACHINE * machines };
  const wanted = total(needs);
  const isOurs = record !== undefined && record.raised === limit;
  if (limit >= wanted && !isOurs) return;
  const raised = Math.max(limit, wanted, COMFORTABLE);
  const before = isOurs ? record.before : limit;
  await writeRecord(host, { version: 1, before, raised, needs });
  if (raised !== limit) await writeLimit(host, raised, signal);
}

/** A cluster is gone: the limit goes back to what it was unless the machines of another one need it. */
export async function restoreInotifyLimit(
  host: HostPorts,
  { directory, signal }: { readonly directory: string; readonly signal: AbortSignal },
): Promise<void> {
  if ((await readRecord(host)) === undefined) return;
  await using _turn = await turn(host, signal);
  const record = await readRecord(host);
  if (record === undefined) return;
  const needs = await livingNeeds(host, record, directory);
  if (total(needs) > Math.max(record.before, KERNEL_DEFAULT))
    return await writeRecord(host, { ...record, needs });
  // Whatever the record says, a host needs the kernel's own default.
  const back = Math.max(record.before, KERNEL_DEFAULT);
  if ((await readLimit(host)) === record.raised) await writeLimit(host, back, signal);
  await host.files.remove(RECORD);
}

function turn({ clock }: HostPorts, signal: AbortSignal): Promise<AsyncDisposable> {
  return waitForLock('inotify limit', { clock, limitMs: TURN_MS, onWait: () => undefined, signal });
}

/** Of all clusters that still hold their number, without one. */
async function livingNeeds(
  host: HostPorts,
  record: WatchRecord | undefined,
  without: string,
): Promise<Readonly<Record<string, number>>> {
  const living = new Set((await readClaims(host)).values());
  const needs = Object.entries(record?.needs ?? {});
  return Object.fromEntries(needs.filter(([directory]) => directory !== without && living.has(directory)));
}

function total(needs: Readonly<Record<string, number>>): number {
  return Object.values(needs).reduce((sum, each) => sum + each, 0);
}

/** Damaged or of another version it is as none: the limit then stays as it is. */
async function readRecord(host: HostPorts): Promise<WatchRecord | undefined> {
  const text = await readText(host.files, RECORD);
  if (text === undefined) return undefined;
  try {
    return shape.parse(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return undefined;
    throw error;
  }
}

async function writeRecord(host: HostPorts, record: WatchRecord): Promise<void> {
  await host.files.makeDirectory(NUMBERS_DIRECTORY);
  await host.files.writeAtomic(RECORD, JSON.stringify(record));
}

async function readLimit(host: HostPorts): Promise<number> {
  return Number((await readText(host.files, LIMIT)) ?? 'NaN');
}

/** Where this machine is a container itself, the limit may be read-only. */
async function writeLimit(host: HostPorts, limit: number, signal: AbortSignal): Promise<void> {
  try {
    await output(host, ['sh', '-c', `echo "$1" > ${LIMIT}`, 'sh', String(limit)], signal);
  } catch (cause) {
    signal.throwIfAborted();
    const command = `sysctl -w fs.inotify.max_user_instances=${limit}`;
    throw new LocalMachineError(
      'localmachines-preflight',
      `setting ${LIMIT} to ${limit}: ${describeError(cause)}`,
      {
        cause,
        fix: `Run on the host of this machine: ${command}. Then run the same command again.`,
      },
    );
  }
}
