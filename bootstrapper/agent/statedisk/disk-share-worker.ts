import { Backoff, type Clock } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { combine, currentValue } from '../../../internal/event/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import { isSameSource, recordableControlPlanes, type ShareSource } from '../../../internal/statedisk/index.ts';
import type { Runnable } from '../../../internal/supervisor/index.ts';
import { isShareError, type DiskQueue, type ShareKeeper } from '../../disk/index.ts';
import { nextWithin, type RoleState, type RoleValues } from '../../roleserve/index.ts';

/** Pauses while no signer takes the share. A cluster of an earlier release has none until it is upgraded. */
const PAUSES = { firstMs: 10_000, factor: 2, longestMs: 30 * 60_000 };

type InputName = 'clusterMembership' | 'localRoles' | 'clusterDirectory';

/** The cluster share of this machine's state disk, as the worker sees and moves it. */
export interface DiskShare {
  /** One for all work on the record of the disk. */
  readonly queue: DiskQueue;
  readKeeper(signal: AbortSignal): Promise<ShareKeeper>;
  /** Gives the share to the signers, or notes a new source. Completes a move that was interrupted; else does nothing if that was done. */
  give(source: ShareSource, signal: AbortSignal): Promise<unknown>;
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
  /** The generation of the shared keys to which the cluster CA of the membership belongs. */
  readonly readCaGeneration: () => Promise<number>;
}

/** Who keeps the cluster share of this node, and where it asks. Pure. */
export function planDiskShare({
  clusterMembership,
  localRoles,
  clusterDirectory,
}: Pick<RoleState, InputName>):
  { readonly why: string } | { readonly source: Omit<ShareSource, 'caGeneration'> } {
  if (clusterMembership === undefined) return { why: 'the membership of this node' };
  if (localRoles === undefined) return { why: 'the roles of this node' };
  // A cold start of the control planes waits for nobody.
  if (isControlPlane([...localRoles])) return { why: 'idle: a control plane keeps its share' };
  const { clusterId, clusterCaPem, directory } = clusterMembership;
  const known: readonly { readonly nodeId: string; readonly host: string }[] = clusterDirectory ?? directory;
  const controlPlanes = recordableControlPlanes(known);
  if (controlPlanes.length === 0) return { why: 'a control plane of the cluster with an address' };
  return { source: { clusterId, clusterCaPem, controlPlanes } };
}

/**
 * Gives the cluster share of a worker's disk to the signers, and keeps the record of the disk up to date about where to ask. While no signer
 * takes the share, the machine keeps it sealed to its TPM. A new control plane takes its share back before it starts (`keepOwnShare()`).
 */
export function diskShareWorker(options: DiskShareWorkerOptions): Runnable {
  const { reads, clock, random, diskShare } = options;
  const { clusterMembership, localRoles, clusterDirectory } = reads;
  return async (scope) => {
    const { signal, log } = scope;
    scope.healthy();
    if (diskShare === undefined) return scope.done();
    const backoff = new Backoff({ ...PAUSES, random });
    let reported = '';
    let last: ShareSource | undefined;
    using watcher = combine({ clusterMembership, localRoles, clusterDirectory }).watch();
    await watcher.next(signal);
    for (;;) {
      let pauseMs = PAUSES.longestMs;
      try {
        const moved = await moveShare(options, { share: diskShare, last }, signal);
        last = moved.source;
        scope.waiting(moved.why);
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

/** @returns where the share is, if the signers have it, and what the worker waits for */
async function moveShare(
  options: DiskShareWorkerOptions,
  { share, last }: { readonly share: DiskShare; readonly last: ShareSource | undefined },
  signal: AbortSignal,
): Promise<{ readonly source?: ShareSource; readonly why: string }> {
  const { holdsKeys, readCaGeneration } = options;
  return share.queue.run(async () => {
    // Planned within the queue: a node that became a control plane meanwhile has taken its share back, and keeps it.
    const plan = planDiskShare(stateOf(options));
    if ('why' in plan) return plan;
    if (await holdsKeys()) return { why: 'idle: the control plane on this node has not ended' };
    const source = { ...plan.source, caGeneration: await readCaGeneration() };
    if (last === undefined || !isSameSource(last, source)) await share.give(source, signal);
    return { source, why: 'changes of the control planes' };
  });
}

function stateOf({ reads }: DiskShareWorkerOptions): Pick<RoleState, InputName> {
  return {
    clusterMembership: currentValue(reads.clusterMembership),
    localRoles: currentValue(reads.localRoles),
    clusterDirectory: currentValue(reads.clusterDirectory),
  };
}

/** Seals the share of a disk to the TPM again, before this node becomes a control plane. @throws DiskError of a missing share */
export async function keepOwnShare(diskShare: DiskShare | undefined, signal: AbortSignal): Promise<void> {
  if (diskShare === undefined) return;
  await diskShare.queue.run(async () => {
    if ((await diskShare.readKeeper(signal)).kind === 'signer') await diskShare.takeBack(signal);
  });
}
