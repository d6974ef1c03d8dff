import {
  absent,
  Namespace,
  put,
  unchanged,
  type EtcdClient,
  type KeySpace,
} from '../../../internal/etcd/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { CLUSTER_KEY, CLUSTER_PREFIX, records } from '../../../internal/records/index.ts';
import type { EtcdName } from '../etcd-instances.ts';
import type { ConsensusLayout } from '../consensus-layout.ts';

const MAX_BYTES = 64;
const PROBE_MS = 2_000;
/** The state etcd has its epoch in the record of the cluster; the Kubernetes etcd has no other record of ours. */
const EPOCH_KEYS: Readonly<Record<EtcdName, string>> = {
  state: CLUSTER_KEY,
  kubernetes: records.etcdEpoch.key('epoch'),
};

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

/** As a member that has a quorum says; undefined before the first record. */
export async function fetchEpoch(
  etcd: Pick<EtcdClient, 'get'>,
  name: EtcdName,
  signal: AbortSignal,
): Promise<number | undefined> {
  const entry = await etcd.get(CLUSTER_PREFIX + EPOCH_KEYS[name], { signal, timeoutMs: PROBE_MS });
  if (entry === undefined) return undefined;
  const { key, value } = entry;
  return name === 'state'
    ? records.cluster.decode(key, value).epoch
    : records.etcdEpoch.decode(key, value).epoch;
}

/** Where nobody has written an epoch yet and no other record does so: the first one. */
export async function ensureEpoch(etcd: KeySpace, name: EtcdName, signal: AbortSignal): Promise<void> {
  if (name === 'state') return; // comes with the record of the cluster
  const key = EPOCH_KEYS.kubernetes;
  const value = records.etcdEpoch.encode({ version: 1, epoch: 1 });
  await new Namespace(etcd, CLUSTER_PREFIX).commit(
    { when: [absent(key)], then: [put(key, value)] },
    { signal },
  );
}

/**
 * The next epoch, written where `askEpoch` reads it; it is above `before`, too.
 * @returns undefined where etcd holds no cluster
 */
export async function raiseEpoch(
  etcd: KeySpace,
  { name, before }: { readonly name: EtcdName; readonly before: number },
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<number | undefined> {
  const cluster = new Namespace(etcd, CLUSTER_PREFIX);
  const entry = await cluster.get(EPOCH_KEYS[name], options);
  if (entry === undefined) return undefined;
  const { key, value } = entry;
  const [epoch, raised] =
    name === 'state'
      ? next(records.cluster.decode(key, value), before, (record) => records.cluster.encode(record))
      : next(records.etcdEpoch.decode(key, value), before, (record) => records.etcdEpoch.encode(record));
  const { signal } = options;
  await cluster.commit({ when: [unchanged(entry)], then: [put(key, raised)] }, { signal });
  return epoch;
}

function next<T extends { readonly epoch: number }>(
  record: T,
  before: number,
  encode: (record: T) => Uint8Array,
): readonly [number, Uint8Array] {
  const epoch = Math.max(record.epoch, before) + 1;
  return [epoch, encode({ ...record, epoch })];
}

/** What of several members is the cluster now. */
export interface NewestEpoch {
  /** 0 where none of them can say. */
  readonly epoch: number;
  /** Those that serve it, "host:port"; all others may have missed a recovery. */
  readonly endpoints: readonly string[];
}

/** Pure. */
export function newestEpochOf(
  answers: readonly { readonly endpoint: string; readonly epoch: number }[],
): NewestEpoch {
  const epoch = Math.max(0, ...answers.map((answer) => answer.epoch));
  const serving = answers.filter((answer) => epoch > 0 && answer.epoch === epoch);
  return { epoch, endpoints: serving.map(({ endpoint }) => endpoint) };
}
