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
/** The state etcd has its epoch in the cluster record; the Kubernetes etcd has a record for the epoch alone. */
const EPOCH_KEYS: Readonly<Record<EtcdName, string>> = {
  state: CLUSTER_KEY,
  kubernetes: records.etcdEpoch.key('epoch'),
};

/** The epoch of the data on this disk. Each recovery of the quorum raises it: members of two epochs are two etcd clusters. */
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

/** Reads the epoch from a member that has a quorum; undefined before the first record. */
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
  if (name === 'state') return; // part of the cluster record
  const key = EPOCH_KEYS.kubernetes;
  const value = records.etcdEpoch.encode({ version: 1, epoch: 1 });
  await new Namespace(etcd, CLUSTER_PREFIX).commit(
    { when: [absent(key)], then: [put(key, value)] },
    { signal },
  );
}

/**
 * Raises the epoch above its current value and above `before`.
 * @returns the new epoch; undefined where etcd has no records of a cluster
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

/** The newest epoch of several members. */
export interface NewestEpoch {
  /** 0 where none of them answered. */
  readonly epoch: number;
  /** "host:port" of the members that serve it; the others may have missed a recovery. */
  readonly endpoints: readonly string[];
}

/** Pure. An answer of 0 means that the member did not answer. */
export function newestEpochOf(
  answers: readonly { readonly endpoint: string; readonly epoch: number }[],
): NewestEpoch {
  const epoch = Math.max(0, ...answers.map((answer) => answer.epoch));
  const serving = answers.filter((answer) => epoch > 0 && answer.epoch === epoch);
  return { epoch, endpoints: serving.map(({ endpoint }) => endpoint) };
}
