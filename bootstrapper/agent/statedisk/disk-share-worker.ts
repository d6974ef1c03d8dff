import { Backoff, HOUR_MS, type Clock } from '../../../internal/clock/index.ts';
import { formatEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { combine, currentValue } from '../../../internal/event/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import {
  isSameSource,
  recordableControlPlanes,
  recordableEndpoints,
  type KnownSource,
} from '../../../internal/statedisk/index.ts';
import type { Runnable } from '../../../internal/supervisor/index.ts';
import { isShareError, type DiskQueue, type ShareKeeper } from '../../disk/index.ts';
import type { KnownCa } from '../../joinclient/index.ts';
import type { OperatorEndpoints } from '../../nodestate/index.ts';
import { nextWithin, type RoleState, type RoleValues } from '../../roleserve/index.ts';

/** Pauses while no signer takes the share. A cluster of an earlier release has none until it is upgraded. */
const PAUSES = { firstMs: 10_000, factor: 2, longestMs: 30 * 60_000 };

/** A curator names the endpoints in the record: however often it changes them, the disk is not worn out. */
const UPDATE_MS = HOUR_MS;

type InputName = 'clusterMembership' | 'localRoles' | 'clusterDirectory' | 'clusterRelays';

/** The cluster share of this machine's state disk, as the worker sees and moves it. */
export interface DiskShare {
  /** One for all work on the record of the disk. */
  readonly queue: DiskQueue;
  readKeeper(signal: AbortSignal): Promise<ShareKeeper>;
  /** Gives the share to the signers, or notes a new source. Completes a move that was interrupted; else does nothing if that was done. */
  give(source: KnownSource, signal: AbortSignal): Promise<unknown>;
  /** Seals a share to the TPM again. Does nothing if the machine has one. */
  takeBack(signal: AbortSignal): Promise<unknown>;
}

/** Inputs and ports (injected dependencies) of the worker. */
export interface DiskShareWorkerOptions {
  readonly reads: Pick<RoleValues, InputName>;
  readonly clock: Clock;
  readonly random: () => number;
  /** undefined on a machine without a state disk. */
  readonly diskShare: DiskShare | undefined;
  /** Whether private keys of a control plane are on this disk. */
  readonly holdsKeys: () => Promise<boolean>;
  /** The generation of the cluster CA that this node knows, and the newest owner documents that it has accepted. */
  readonly readKnownCa: () => Promise<Pick<KnownCa, 'generation' | 'floors'>>;
  /** Endpoints that operators have set on this machine. */
  readonly operatorEndpoints: Pick<OperatorEndpoints, 'list'>;
}

/** Who keeps the cluster share of this node, and where it asks. Pure. */
export function planDiskShare(
  { clusterMembership, localRoles, clusterDirectory, clusterRelays }: Pick<RoleState, InputName>,
  operatorEndpoints: readonly string[],
): { readonly why: string } | { readonly source: Omit<KnownSource, 'caGeneration' | 'floors'> } {
  if (clusterMembership === undefined) return { why: 'the membership of this node' };
  if (localRoles === undefined) return { why: 'the roles of this node' };
  // A cold start of the control planes waits for nobody.
  if (isControlPlane([...localRoles])) return { why: 'idle: a control plane keeps its share' };
  const { clusterId, clusterCaPem, directory, nodeAddress } = clusterMembership;
  const known: readonly { readonly nodeId: string; readonly host: string }[] = clusterDirectory ?? directory;
  const controlPlanes = recordableControlPlanes(known);
  if (controlPlanes.length === 0) return { why: 'a control plane of the cluster with an address' };
  // The relay on this node needs the disk.
  const relays = (clusterRelays ?? []).filter((host) => host !== nodeAddress).toSorted();
  const endpoints = recordableEndpoints([
    ...operatorEndpoints,
    ...relays.map((host) => formatEndpoint(host, PORTS.joinRelay)),
  ]);
  return { source: { clusterId, clusterCaPem, controlPlanes, endpoints } };
}

/**
 * Gives the cluster share of a worker's disk to the signers, and keeps the record of the disk up to date about where to ask. While no signer
 * takes the share, the machine keeps it sealed to its TPM. A new control plane takes its share back before it starts (`keepOwnShare()`).
 */
export function diskShareWorker(options: DiskShareWorkerOptions): Runnable {
  const { reads, clock, random, diskShare } = options;
  const { clusterMembership, localRoles, clusterDirectory, clusterRelays } = reads;
  const known: Known = { last: undefined, nextUpdateMs: 0 };
  return async (scope) => {
    const { signal, log } = scope;
    scope.healthy();
    if (diskShare === undefined) return scope.done();
    const backoff = new Backoff({ ...PAUSES, random });
    let reported = '';
    using watcher = combine({ clusterMembership, localRoles, clusterDirectory, clusterRelays }).watch();
    await watcher.next(signal);
    for (;;) {
      let pauseMs = PAUSES.longestMs;
      try {
        const { why, leftMs } = await moveShare(options, { share: diskShare, known }, signal);
        scope.waiting(why);
        pauseMs = leftMs ?? pauseMs;
        backoff.reset();
        reported = '';
      } catch (error) {
        signal.throwIfAborted();
        // Another error of the disk or the TPM is one of this worker, which the supervisor shows and repeats.
        if (!isShareError(error)) throw error;
        pauseMs = backoff.nextMs();
        const reason = `${error.code}: ${describeError(error)}`;
        const { kind } = await diskShare.readKeeper(signal);
        if (reason !== reported)
          log.warn('cluster share of the state disk not given to the signers', { keeper: kind, reason });
        reported = reason;
        scope.waiting(`a signer that takes the cluster share of the state disk: ${reason}`);
      }
      await nextWithin(watcher, pauseMs, clock, signal);
    }
  };
}

/** The state of this run of the agent, which is kept when the worker restarts. */
interface Known {
  /** The source in the record, once this run has looked at it. */
  last: KnownSource | undefined;
  /** When the next attempt may be made to change the source in the record, by the monotonic clock. */
  nextUpdateMs: number;
}

/** @returns what the worker waits for, and for how long at most */
async function moveShare(
  options: DiskShareWorkerOptions,
  { share, known }: { readonly share: DiskShare; readonly known: Known },
  signal: AbortSignal,
): Promise<{ readonly why: string; readonly leftMs?: number }> {
  const { holdsKeys, readKnownCa, operatorEndpoints, clock } = options;
  return share.queue.run(async () => {
    // Planned within the queue: a node that became a control plane meanwhile has taken its share back, and keeps it.
    const plan = planDiskShare(stateOf(options), operatorEndpoints.list);
    const idle = 'why' in plan ? plan.why : undefined;
    const isStopping = idle === undefined && (await holdsKeys());
    if ('why' in plan || isStopping) {
      known.last = undefined;
      return { why: idle ?? 'idle: the control plane on this node has not ended' };
    }
    const { generation: caGeneration, floors } = await readKnownCa();
    const source = { ...plan.source, caGeneration, floors };
    if (known.last !== undefined && isSameSource(known.last, source))
      return { why: 'changes of the control planes' };
    if ((await share.readKeeper(signal)).kind === 'signer') {
      const leftMs = known.nextUpdateMs - clock.monotonicMs();
      if (leftMs > 0) return { why: 'the next hour, to note where to ask for the share of the disk', leftMs };
    }
    known.nextUpdateMs = clock.monotonicMs() + UPDATE_MS;
    await share.give(source, signal);
    known.last = source;
    return { why: 'changes of the control planes' };
  });
}

function stateOf({ reads }: DiskShareWorkerOptions): Pick<RoleState, InputName> {
  return {
    clusterMembership: currentValue(reads.clusterMembership),
    localRoles: currentValue(reads.localRoles),
    clusterDirectory: currentValue(reads.clusterDirectory),
    clusterRelays: currentValue(reads.clusterRelays),
  };
}

/** Seals the share of a disk to the TPM again, before this node becomes a control plane. @throws DiskError of a missing share */
export async function keepOwnShare(
  diskShare: DiskShare | undefined,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  if (diskShare === undefined) return;
  await diskShare.queue.run(async () => {
    if ((await diskShare.readKeeper(signal)).kind !== 'signer') return;
    say('asking a signer for the cluster share of the state disk, which ends approvals of other software');
    await diskShare.takeBack(signal);
  });
}
