import { z } from 'zod';
import { describeError } from '../../errors/index.ts';
import { LocalMachineError } from '../errors.ts';
import { readText } from '../../file/index.ts';
import { output, type HostPorts } from './host-ports.ts';
import { waitForLock } from '../host-lock.ts';
import { NUMBERS_DIRECTORY, readClaims } from '../network/cluster-numbers.ts';

/**
 * systemd, containerd and the kubelet of each machine use inotify, and the kernel has one limit for all of them. The default of 128
 * instances is sufficient for one machine.
 */
const LIMIT = '/proc/sys/fs/inotify/max_user_instances';
const KERNEL_DEFAULT = 128;
const PER_MACHINE = 128;
/** Sufficient for most clusters, so that the limit is raised once and not for each machine. */
const COMFORTABLE = 1024;
const RECORD = `${NUMBERS_DIRECTORY}/inotify.json`;
const LOCK_MS = 10_000;

const shape = z.strictObject({
  version: z.literal(1),
  /** The limit that was set before it was raised, to be restored. */
  before: z.int(),
  /** The raised limit. Any other value was set by another program and stays. */
  raised: z.int(),
  /** Directory of a cluster → inotify instances that the machines of this cluster need. */
  needs: z.record(z.string(), z.int()),
});
type WatchRecord = z.infer<typeof shape>;

/**
 * Raises the inotify limit so that it is sufficient for the machines of this cluster and of all other clusters. Writes
 * the original limit to disk before raising it, so that the removal of the last cluster restores it even after a crash.
 * @throws LocalMachineError `localmachines-preflight`
 */
export async function raiseInotifyLimit(
  host: HostPorts,
  cluster: { readonly directory: string; readonly machines: number; readonly signal: AbortSignal },
): Promise<void> {
  const { directory, machines, signal } = cluster;
  await using _lock = await lockLimit(host, signal);
  const record = await readRecord(host);
  const others = await needsOfExisting(host, record, directory);
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

/** Restores the limit after the removal of a cluster, unless the machines of another cluster need it. */
export async function restoreInotifyLimit(
  host: HostPorts,
  { directory, signal }: { readonly directory: string; readonly signal: AbortSignal },
): Promise<void> {
  if ((await readRecord(host)) === undefined) return;
  await using _lock = await lockLimit(host, signal);
  const record = await readRecord(host);
  if (record === undefined) return;
  const needs = await needsOfExisting(host, record, directory);
  if (total(needs) > Math.max(record.before, KERNEL_DEFAULT))
    return await writeRecord(host, { ...record, needs });
  // The limit is never set below the default of the kernel, whatever the record says.
  const back = Math.max(record.before, KERNEL_DEFAULT);
  if ((await readLimit(host)) === record.raised) await writeLimit(host, back, signal);
  await host.files.remove(RECORD);
}

function lockLimit({ clock }: HostPorts, signal: AbortSignal): Promise<AsyncDisposable> {
  return waitForLock('inotify limit', { clock, limitMs: LOCK_MS, onWait: () => undefined, signal });
}

/** The number of inotify instances that each existing cluster needs, without one cluster. */
async function needsOfExisting(
  host: HostPorts,
  record: WatchRecord | undefined,
  without: string,
): Promise<Readonly<Record<string, number>>> {
  const existing = new Set((await readClaims(host)).values());
  const needs = Object.entries(record?.needs ?? {});
  return Object.fromEntries(needs.filter(([directory]) => directory !== without && existing.has(directory)));
}

function total(needs: Readonly<Record<string, number>>): number {
  return Object.values(needs).reduce((sum, each) => sum + each, 0);
}

/** A damaged record, or one of another version, is ignored: the limit then stays. */
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

/** The limit may be read-only when this machine is a container itself. */
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
