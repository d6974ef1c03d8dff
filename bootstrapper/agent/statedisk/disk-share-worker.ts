import { childSignal, untilAborted } from '../../../internal/cleanup/index.ts';
import { Backoff, DAY_MS, HOUR_MS, MINUTE_MS, type Clock } from '../../../internal/clock/index.ts';
import { formatEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { combine, currentValue, when } from '../../../internal/event/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import {
  isSameSource,
  recordableControlPlanes,
  recordableEndpoints,
  type KnownSource,
} from '../../../internal/statedisk/index.ts';
import type { Runnable, Scope } from '../../../internal/supervisor/index.ts';
import {
  DiskError,
  isKeyMove,
  isLastingRefusal,
  isShareError,
  type DiskQueue,
  type ShareMove,
} from '../../disk/index.ts';
import type { KnownCa } from '../../joinclient/index.ts';
import type { OperatorEndpoints } from '../../nodestate/index.ts';
import { nextWithin, type RoleState, type RoleValues } from '../../roleserve/index.ts';
import { ShareProbe, type ProbedShare } from './share-probe.ts';

const REFUSED = 'disk-share-refused';
/** Pauses while no signer takes the share. A cluster of an earlier release has none until it is upgraded. */
const PAUSES = { firstMs: 10_000, factor: 2, longestMs: 30 * 60_000 };
/**
 * A refusal does not pass by itself, and each one is in the audit log of requests: a machine that is identified by its processor is refused
 * as long as it is a member.
 */
const REFUSED_PAUSES = { ...PAUSES, longestMs: DAY_MS };

/** A curator names the endpoints in the record: however often it changes them, the disk is not worn out. */
const UPDATE_MS = HOUR_MS;
/** After a refusal that does not pass; each one is in the audit log of requests. */
const REFUSED_UPDATE_MS = DAY_MS;

/** How long keys of the disk stay in memory at most because this node still starts. */
const SETTLE_MS = 15 * MINUTE_MS;

type NodeStateName = 'localRoles' | 'localComponents' | 'kubernetesStatus';
type InputName = 'clusterMembership' | 'localRoles' | 'clusterDirectory' | 'clusterRelays';

/** The cluster share of this machine's state disk, as the worker sees and moves it. */
export interface DiskShare extends ProbedShare {
  /** One for all work on the record of the disk. */
  readonly queue: DiskQueue;
  /** Gives the share to the signers, or notes a new source. Completes a move that was interrupted; else does nothing if that was done. */
  give(source: KnownSource, signal: AbortSignal): Promise<ShareMove>;
  /** Seals a share to the TPM again. Does nothing if the machine has one. */
  takeBack(signal: AbortSignal): Promise<ShareMove>;
}

/** Inputs and ports (injected dependencies) of the worker. */
export interface DiskShareWorkerOptions {
  readonly reads: Pick<RoleValues, InputName | NodeStateName>;
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
  /** Ends the agent. */
  readonly end: (reason: unknown) => void;
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
 * After a move, the agent starts again, because its memory has keys of the disk.
 */
export function diskShareWorker(options: DiskShareWorkerOptions): Runnable {
  const { reads, clock, random, diskShare } = options;
  const { clusterMembership, localRoles, clusterDirectory, clusterRelays } = reads;
  const known: Known = {
    last: undefined,
    nextUpdateMs: 0,
    failed: '',
    isRefused: false,
    hasMoved: false,
    probe: new ShareProbe({ clock, random }),
  };
  return async (scope) => {
    const { signal, log } = scope;
    scope.healthy();
    if (diskShare === undefined) return scope.done();
    const pauses = {
      passing: new Backoff({ ...PAUSES, random }),
      refused: new Backoff({ ...REFUSED_PAUSES, random }),
    };
    let reported = '';
    using watcher = combine({ clusterMembership, localRoles, clusterDirectory, clusterRelays }).watch();
    await watcher.next(signal);
    for (;;) {
      if (known.hasMoved) await startAgain(options, diskShare.queue, scope);
      let pauseMs = PAUSES.longestMs;
      try {
        const { why, leftMs } = await moveShare(options, { share: diskShare, known, log }, signal);
        scope.waiting(why);
        pauseMs = leftMs ?? pauseMs;
        for (const each of Object.values(pauses)) each.reset();
        reported = '';
      } catch (error) {
        signal.throwIfAborted();
        // Another error of the disk or the TPM is one of this worker, which the supervisor shows and repeats.
        if (!isShareError(error)) throw error;
        pauseMs = pauses[error.code === REFUSED ? 'refused' : 'passing'].nextMs();
        const reason = `${error.code}: ${describeError(error)}`;
        const { kind } = await diskShare.readKeeper(signal);
        if (reason !== reported)
          log.warn('cluster share of the state disk not given to the signers', { keeper: kind, reason });
        reported = known.failed = reason;
        scope.waiting(`a signer that takes the cluster share of the state disk: ${reason}`);
      }
      if (!known.hasMoved) await nextWithin(watcher, pauseMs, clock, signal);
    }
  };
}

/** Whether a new start of the agent would interrupt nothing that this node has begun: a new worker imports images and starts its kubelet. Pure. */
export function isSettled(state: Pick<RoleState, NodeStateName>): boolean {
  const { localRoles, localComponents, kubernetesStatus } = state;
  if (localRoles?.has('KubernetesWorker') !== true) return true;
  return localComponents?.images === 'imported' && kubernetesStatus?.controlPlane === false;
}

/** Waits until this node has started, and until no other work on the disk runs; then has the agent start again. */
export async function startAgain(
  { reads, clock, end }: DiskShareWorkerOptions,
  queue: DiskQueue,
  { signal, waiting }: Scope,
): Promise<void> {
  waiting('the start of this node, before the agent starts again without keys of the state disk');
  const { localRoles, localComponents, kubernetesStatus } = reads;
  using either = childSignal(signal);
  const node = combine({ localRoles, localComponents, kubernetesStatus });
  const waits = [when(node, isSettled, either.signal), clock.sleep(SETTLE_MS, either.signal)] as const;
  await Promise.race(waits).catch(() => undefined);
  either.abort();
  await Promise.allSettled(waits);
  signal.throwIfAborted();
  await queue.run(() => Promise.resolve(end(shareMoved())));
  await untilAborted(signal);
}

function shareMoved(): DiskError {
  return new DiskError('disk-share-moved', 'starting again without the keys of the state disk');
}

/** The state of this run of the agent, which is kept when the worker restarts. */
interface Known {
  /** The source in the record, once this run has looked at it. */
  last: KnownSource | undefined;
  /** When the next attempt may be made to change the source in the record, by the monotonic clock. */
  nextUpdateMs: number;
  /** Why the last attempt to change it failed; empty if it did not. */
  failed: string;
  /** Whether the cluster refused that for a reason that does not pass. */
  isRefused: boolean;
  readonly probe: ShareProbe;
  /** Whether a move has left keys of the disk in the memory of this process. */
  hasMoved: boolean;
}

/** @returns what the worker waits for, and for how long at most */
async function moveShare(
  options: DiskShareWorkerOptions,
  { share, known, log }: { readonly share: DiskShare; readonly known: Known; readonly log: Logger },
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
    if (known.last !== undefined && isSameSource(known.last, source)) {
      const problem = await known.probe.whenDue(share, log, signal);
      return { why: problem ?? 'changes of the control planes' };
    }
    if ((await share.readKeeper(signal)).kind === 'signer') {
      const leftMs = known.nextUpdateMs - clock.monotonicMs();
      if (leftMs > 0) return { why: nextUpdate(known), leftMs };
    }
    known.nextUpdateMs = clock.monotonicMs() + UPDATE_MS;
    const given = await share.give(source, signal).catch((error: unknown) => {
      known.isRefused = isLastingRefusal(error);
      if (known.isRefused) known.nextUpdateMs = clock.monotonicMs() + REFUSED_UPDATE_MS;
      throw error;
    });
    known.isRefused = false;
    known.hasMoved = isKeyMove(given);
    known.last = source;
    known.failed = '';
    return { why: 'changes of the control planes' };
  });
}

function nextUpdate({ failed, isRefused }: Pick<Known, 'failed' | 'isRefused'>): string {
  const why = `the next ${isRefused ? 'day' : 'hour'}, to note where to ask for the share of the disk`;
  return failed === '' ? why : `${why}; last error: ${failed}`;
}

function stateOf({ reads }: DiskShareWorkerOptions): Pick<RoleState, InputName> {
  return {
    clusterMembership: currentValue(reads.clusterMembership),
    localRoles: currentValue(reads.localRoles),
    clusterDirectory: currentValue(reads.clusterDirectory),
    clusterRelays: currentValue(reads.clusterRelays),
  };
}

/**
 * Seals the share of a disk to the TPM again, before this node becomes a control plane. If it did, the agent starts again at once, because nothing of
 * the control plane runs yet.
 * @throws DiskError of a missing share; `disk-share-moved` while the agent ends
 */
export async function keepOwnShare(
  { diskShare, end }: Pick<DiskShareWorkerOptions, 'diskShare' | 'end'>,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  if (diskShare === undefined) return;
  await diskShare.queue.run(async () => {
    if ((await diskShare.readKeeper(signal)).kind === 'signer')
      say('asking a signer for the cluster share of the state disk, which ends approvals of other software');
    // Also completes a move that a killed agent has begun, after which the record names no signer any more.
    if (!isKeyMove(await diskShare.takeBack(signal))) return;
    const reason = shareMoved();
    end(reason);
    throw reason;
  });
}
