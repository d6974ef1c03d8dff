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
/**
 * The state etcd stores its epoch in the cluster record; the Kubernetes etcd has a separate record for its
 * epoch.
 */
const EPOCH_KEYS: Readonly<Record<EtcdName, string>> = {
  state: CLUSTER_KEY,
  kubernetes: records.etcdEpoch.key('epoch'),
};

/**
 * Reads the epoch of the data on this disk. Each recovery of the quorum increases the epoch: members with
 * different epochs belong to different etcd clusters.
 */
export async function readEpoch(files: FilePort, layout: ConsensusLayout): Promise<number> {
  const bytes = await files.read(layout.epochFile, MAX_BYTES);
  if (bytes === undefined) return 1;
  const epoch = Number(Buffer.from(bytes).toString('utf8').trim());
  if (!Number.isSafeInteger(epoch) || epoch < 1) throw new RangeError(`${layout.epochFile} has no epoch`);
  return epoch;
}

/** Saves the epoch of the data on this disk. */
export async function writeEpoch(files: FilePort, layout: ConsensusLayout, epoch: number): Promise<void> {
  await files.writeAtomic(layout.epochFile, `${epoch}\n`);
}

/** Reads the epoch from a member that has a quorum; undefined before the first record exists. */
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

/** Creates the epoch record of the Kubernetes etcd unless it exists. */
export async function ensureEpoch(etcd: KeySpace, name: EtcdName, signal: AbortSignal): Promise<void> {
  if (name === 'state') return; // the epoch of the state etcd is in the cluster record
  const key = EPOCH_KEYS.kubernetes;
  const value = records.etcdEpoch.encode({ version: 1, epoch: 1 });
  await new Namespace(etcd, CLUSTER_PREFIX).commit(
    { when: [absent(key)], then: [put(key, value)] },
    { signal },
  );
}

/**
 * Sets the epoch to a value above its current value and above `before`.
 * @returns the new epoch; undefined if etcd has no records of a cluster
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

/** The newest epoch that several members reported. */
export interface NewestEpoch {
  /** 0 if none of the members answered. */
  readonly epoch: number;
  /** "host:port" of the members that serve this epoch; the other members may have missed a recovery. */
  readonly endpoints: readonly string[];
}

/**
 * Returns the newest of these epochs and its members. An epoch of 0 means that the member did not answer.
 * Pure.
 */
export function newestEpochOf(
  answers: readonly { readonly endpoint: string; readonly epoch: number }[],
): NewestEpoch {
  const epoch = Math.max(0, ...answers.map((answer) => answer.epoch));
  const serving = answers.filter((answer) => epoch > 0 && answer.epoch === epoch);
  return { epoch, endpoints: serving.map(({ endpoint }) => endpoint) };
}
