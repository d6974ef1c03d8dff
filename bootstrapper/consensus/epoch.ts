import type { EtcdClient } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { CLUSTER_KEY, CLUSTER_PREFIX, records } from '../../internal/records/index.ts';
import type { ConsensusLayout } from './layout.ts';

const MAX_BYTES = 64;
const PROBE_MS = 2_000;

/** The epoch of the data on this disk. It grows when etcd is restored: two epochs are two clusters with one history. */
export async function readEpoch(files: FilePort, layout: ConsensusLayout): Promise<number> {
  const bytes = await files.read(layout.epochFile, MAX_BYTES);
  if (bytes === undefined) return 1;
  const epoch = Number(Buffer.from(bytes).toString('utf8').trim());
  if (!Number.isSafeInteger(epoch) || epoch < 1)
    throw new RangeError(`reading ${layout.epochFile}: no epoch`);
  return epoch;
}

export async function writeEpoch(files: FilePort, layout: ConsensusLayout, epoch: number): Promise<void> {
  await files.writeAtomic(layout.epochFile, `${epoch}\n`);
}

/** As a member that has a quorum says; undefined before the cluster's first record. */
export async function askEpoch(
  etcd: Pick<EtcdClient, 'get'>,
  signal: AbortSignal,
): Promise<number | undefined> {
  const entry = await etcd.get(CLUSTER_PREFIX + CLUSTER_KEY, { signal, timeoutMs: PROBE_MS });
  return entry === undefined ? undefined : records.cluster.decode(entry.key, entry.value).epoch;
}

/** What of several members is the cluster now. */
export interface Newest {
  /** 0 where none of them can say. */
  readonly epoch: number;
  /** Those that serve it, "host:port"; all others may have missed a recovery. */
  readonly endpoints: readonly string[];
}

/** Pure. */
export function newestFrom(
  answers: readonly { readonly endpoint: string; readonly epoch: number }[],
): Newest {
  const epoch = Math.max(0, ...answers.map((answer) => answer.epoch));
  const serving = answers.filter((answer) => epoch > 0 && answer.epoch === epoch);
  return { epoch, endpoints: serving.map(({ endpoint }) => endpoint) };
}
