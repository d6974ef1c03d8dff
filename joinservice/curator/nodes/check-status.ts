import { isIP } from 'node:net';
import { toBinary } from '@bufbuild/protobuf';
import type { Clock } from '../../../internal/clock/index.ts';
import { canonicalAddress, hostOf } from '../../../internal/endpoint/index.ts';
import { NodeStatusSchema, type LastError, type NodeStatus } from '../../curatorproto/gen/curator_pb.js';
import { CuratorError } from '../errors.ts';
import { refuseField } from './node-wire.ts';

/** A status of a control plane with everything running has about 15 KiB. */
const MAX_STATUS_BYTES = 64 * 1024;
/** Longer texts for people are cut. */
const MAX_TEXT = 1024;
const MAX_NAME = 256;
const MAX_ENTRIES = {
  runnables: 512,
  certificates: 64,
  controlPlane: 8,
  facts: 64,
  members: 32,
  directories: 16,
  services: 16,
  problems: 64,
  unreachable: 16,
  agreeing: 32,
  differing: 32,
  notCompared: 32,
  lost: 16,
  roundTrips: 8,
} as const;
/** No agent waits this long for an answer. */
const MAX_ROUND_TRIP_MS = 60_000;

/**
 * The bytes that a node may write at once, and the bytes that it may then write in each second. Together they are
 * about 8 MiB in an hour, and etcd keeps the history of one hour.
 */
const BURST_BYTES = 1024 * 1024;
const BYTES_PER_SECOND = 2 * 1024;
/**
 * Bytes that each write counts in addition to its status: etcd stores the key and its revision with every write, even
 * for an empty status.
 */
const BYTES_PER_WRITE = 512;
/** Maximum number of nodes whose writes are counted. */
const MAX_NODES = 8_192;

/**
 * Checks the status that a node reports about itself and returns its encoding with long texts cut. A node reports only addresses in
 * its certificate, which the signer has checked, so that it cannot take the address of another node.
 * @param addresses of the node's certificate
 * @throws CuratorError `curator-request-invalid`
 */
export function checkStatus(status: NodeStatus, addresses: readonly string[]): Uint8Array {
  const own = new Set(addresses.map(canonicalAddress));
  const isOwn = (host: string): boolean => isIP(host) !== 0 && own.has(canonicalAddress(host));
  const { address, curatorEndpoint, kubernetesEtcd, keys } = status;
  if (address !== '' && !isOwn(address))
    refuseField('address', `${quoted(address)} is not in the certificate`);
  if (curatorEndpoint !== '' && !isOwn(hostOf(curatorEndpoint)))
    refuseField('curator_endpoint', `${quoted(curatorEndpoint)} is not at an address in the certificate`);
  const { runnables, certificates, controlPlane, facts, dataDirectories: directories } = status;
  const { services = [], problems = [], podNetwork } = status.machine ?? {};
  const { unreachable = [], address: podAddress = '', fullPackets } = podNetwork ?? {};
  const { lost = [] } = fullPackets ?? {};
  const { peers: roundTrips = [] } = podNetwork?.roundTrips ?? {};
  const members = kubernetesEtcd?.members ?? [];
  const contents = [status.etcdContents?.state, status.etcdContents?.kubernetes];
  const listed = {
    agreeing: contents.flatMap((each) => each?.agreeing ?? []),
    differing: contents.flatMap((each) => each?.differing ?? []),
    notCompared: contents.flatMap((each) => each?.notCompared ?? []),
  };
  const counts = {
    ...listed,
    ...{ runnables, certificates, controlPlane, members, directories, services, problems },
    ...{ unreachable, lost, roundTrips },
    facts: Object.keys(facts),
  };
  for (const [field, max] of Object.entries(MAX_ENTRIES)) {
    const { length } = counts[field as keyof typeof counts];
    if (length > max) refuseField(field, `${length} entries, at most ${max}`);
  }
  for (const { address: peer, milliseconds } of roundTrips)
    if (isIP(peer) === 0 || milliseconds > MAX_ROUND_TRIP_MS)
      refuseField(
        'round_trips',
        `${quoted(peer)} in ${milliseconds} ms, must be an IP address and at most ${MAX_ROUND_TRIP_MS} ms`,
      );
  const names = [
    ...[status.agentVersion, status.kubernetesVersion, status.bootId, keys?.phase ?? ''],
    ...[...runnables.map(({ path }) => path), ...Object.entries(facts).flat()],
    ...directories.flatMap(({ path, protection }) => [path, protection]),
    ...[podAddress, ...unreachable, ...lost],
    ...Object.values(listed).flat(),
    ...problems.flatMap(({ code, subject }) => [code, subject]),
    ...[...certificates, ...controlPlane, ...members, ...services].map(({ name }) => name),
  ];
  const long = names.find(({ length }) => length > MAX_NAME);
  if (long !== undefined) refuseField('status', `${quoted(long)}… has more than ${MAX_NAME} characters`);
  cutTexts(status);
  const encoded = toBinary(NodeStatusSchema, status);
  if (encoded.length > MAX_STATUS_BYTES)
    refuseField('status', `${encoded.length} bytes, at most ${MAX_STATUS_BYTES}`);
  return encoded;
}

function cutTexts({ lastError, runnables, controlPlane, machine }: NodeStatus): void {
  const cut = (error: LastError | undefined): void => {
    if (error === undefined) return;
    error.code = error.code.slice(0, MAX_NAME);
    error.message = error.message.slice(0, MAX_TEXT);
  };
  cut(lastError);
  for (const each of runnables) {
    cut(each.lastError);
    each.idleBecause = each.idleBecause.slice(0, MAX_TEXT);
  }
  for (const problem of machine?.problems ?? []) problem.cause = problem.cause.slice(0, MAX_TEXT);
  const lookup = machine?.nameLookup;
  if (lookup !== undefined) lookup.failure = lookup.failure.slice(0, MAX_TEXT);
  for (const part of [...controlPlane, ...(machine?.services ?? [])]) part.why = part.why.slice(0, MAX_TEXT);
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}

/** Bounds how much each node can make this curator write to etcd with its status. */
export class StatusBudget {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #nodes = new Map<string, { readonly atMs: number; readonly leftBytes: number }>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /**
   * Uses the budget of a node for one write of a status of this size. @throws CuratorError `curator-status-too-often`
   */
  take(nodeId: string, statusBytes: number): void {
    const bytes = statusBytes + BYTES_PER_WRITE;
    const atMs = this.#clock.monotonicMs();
    const known = this.#nodes.get(nodeId) ?? { atMs, leftBytes: BURST_BYTES };
    const refilled = known.leftBytes + ((atMs - known.atMs) / 1000) * BYTES_PER_SECOND;
    const leftBytes = Math.min(BURST_BYTES, refilled) - bytes;
    if (leftBytes < 0)
      throw new CuratorError(
        'curator-status-too-often',
        `storing the status of ${nodeId}: ${bytes} bytes are more than it may store now`,
      );
    // Deleted and added again, so that the most recent node is last and the oldest can be dropped.
    this.#nodes.delete(nodeId);
    this.#nodes.set(nodeId, { atMs, leftBytes });
    const [oldest] = this.#nodes.keys();
    if (this.#nodes.size > MAX_NODES && oldest !== undefined) this.#nodes.delete(oldest);
  }
}
