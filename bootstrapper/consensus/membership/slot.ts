import { childSignal, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { isAbort } from '../../../internal/errors/index.ts';
import {
  put,
  remove,
  unchanged,
  type Entry,
  type KeySpace,
  type Write,
} from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import {
  SLOT_INTENT_KEY,
  SLOT_PACE_KEY,
  SLOT_QUEUE_PREFIX,
  slotPositions,
} from '../../../internal/records/index.ts';
import { ConsensusError } from '../errors.ts';

/**
 * The slot in which etcd's membership changes: one node at a time, in the order in which they asked. Its keys are in
 * internal/records/control-plane-slot.ts.
 * Fenced: whatever the holder writes is bound to its queue key as it wrote it, so that one who was thought dead writes
 * nothing any more.
 */
const TTL_SECONDS = 15;
const BEAT_MS = 4_000;
const RELEASE_MS = 3_000;
const MAX_JSON = 4096;

/** Who changes etcd's membership and how far it got. */
export interface Intent {
  readonly nodeId: string;
  readonly peerUrl: string;
  /** Lower-case hex; absent until etcd has told it. */
  readonly memberId?: string;
}

export interface SlotPorts {
  /** The cluster's part of etcd. */
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface SlotOptions {
  readonly nodeId: string;
  /** Told while others are before this node: its place, 1 for the next one, and about how long. */
  readonly onPosition: (place: number, estimateMs: number) => void;
  readonly signal: AbortSignal;
}

export interface Slot {
  /** Fires also when the slot is lost. */
  readonly signal: AbortSignal;
  readIntent(): Promise<Intent | undefined>;
  /** Throws `consensus-slot-lost` when another node holds the slot by now. */
  writeIntent(intent: Intent | undefined): Promise<void>;
}

/** Waits for the slot, works in it, and gives it back. */
export async function withSlot<T>(
  ports: SlotPorts,
  options: SlotOptions,
  work: (slot: Slot) => Promise<T>,
): Promise<T> {
  const { etcd, clock } = ports;
  const { nodeId, signal } = options;
  const leaseId = await etcd.grantLease(TTL_SECONDS, { signal });
  using held = childSignal(signal);
  const beating = keepAlive(ports, leaseId, held).catch((error: unknown) => held.abort(error));
  try {
    const key = SLOT_QUEUE_PREFIX + nodeId;
    // An earlier life of this node may be in the queue: its place is kept, its lease is not.
    const queued = await etcd.commit(
      { when: [], then: [put(key, encode({ leaseId: leaseId.toString(16) }), leaseId)] },
      { signal: held.signal },
    );
    const own = { key, modRevision: queued.revision };
    await untilFirst(ports, { ...options, signal: held.signal });
    const startedMs = clock.monotonicMs();
    const done = await work(slotOf(etcd, own, held.signal));
    const pace = encode({ durationMs: Math.round(clock.monotonicMs() - startedMs) });
    await etcd.commit({ when: [], then: [put(SLOT_PACE_KEY, pace)] }, { signal: held.signal });
    return done;
  } finally {
    held.abort(new Error('the slot is given back'));
    await beating;
    await release(ports, leaseId);
  }
}

function slotOf(etcd: KeySpace, own: Pick<Entry, 'key' | 'modRevision'>, signal: AbortSignal): Slot {
  return {
    signal,
    readIntent: async () => {
      const entry = await etcd.get(SLOT_INTENT_KEY, { signal });
      return entry === undefined ? undefined : intentFrom(entry.value);
    },
    writeIntent: async (intent) => {
      const write: Write =
        intent === undefined ? remove(SLOT_INTENT_KEY) : put(SLOT_INTENT_KEY, encode(intent));
      const written = await etcd.commit({ when: [unchanged(own)], then: [write] }, { signal });
      if (written.kind === 'conflict')
        throw new ConsensusError('consensus-slot-lost', 'changing the members of etcd: another node may now');
    },
  };
}

async function untilFirst({ etcd }: SlotPorts, options: SlotOptions): Promise<void> {
  const { nodeId, signal, onPosition: onPlace } = options;
  const pace = await etcd.get(SLOT_PACE_KEY, { signal });
  for await (const event of etcd.watch(SLOT_QUEUE_PREFIX, { signal })) {
    if (event.kind === 'interrupted' || event.kind === 'progress') continue;
    const { entries } = await etcd.list(SLOT_QUEUE_PREFIX, { signal });
    const turn = slotPositions(entries, pace?.value).get(nodeId);
    if (turn?.position === 0) return;
    if (turn === undefined)
      throw new ConsensusError(
        'consensus-slot-lost',
        'waiting to change the members of etcd: the lease ended',
      );
    onPlace(turn.position, turn.estimateMs);
  }
}

async function keepAlive(
  { etcd, clock, log }: SlotPorts,
  leaseId: bigint,
  held: { readonly signal: AbortSignal },
): Promise<never> {
  let endMs = clock.monotonicMs() + TTL_SECONDS * 1000;
  for (;;) {
    await clock.sleep(BEAT_MS, held.signal);
    try {
      const left = await etcd.keepLeaseAlive(leaseId, { signal: held.signal });
      if (left === undefined)
        throw new ConsensusError('consensus-slot-lost', 'keeping the slot: the lease ended');
      endMs = clock.monotonicMs() + left * 1000;
    } catch (error) {
      if (isAbort(error, held.signal) || error instanceof ConsensusError) throw error;
      // Etcd elects a new leader for a moment after each change of members; only time ends the lease.
      log.info('the slot could not be kept alive just now', { error });
      if (clock.monotonicMs() > endMs)
        throw new ConsensusError('consensus-slot-lost', 'keeping the slot', { cause: error });
    }
  }
}

/** Who cannot give it back lets it run out. */
async function release({ etcd, clock, log }: SlotPorts, leaseId: bigint): Promise<void> {
  const { signal } = new AbortController();
  try {
    await withTimeout({ what: 'giving the slot back', ms: RELEASE_MS, clock, signal }, (child) =>
      etcd.revokeLease(leaseId, { signal: child }),
    );
  } catch (error) {
    log.info('the slot runs out by itself', { error });
  }
}

function encode(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ version: 1, ...value }));
}

function parse(value: Uint8Array): Record<string, unknown> | undefined {
  if (value.length > MAX_JSON) return undefined;
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(value));
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : undefined;
  } catch {
    return undefined;
  }
}

/** Nobody but control planes can write here; what cannot be read is an error and no absence. */
function intentFrom(value: Uint8Array): Intent {
  const { nodeId, peerUrl, memberId } = parse(value) ?? {};
  if (typeof nodeId !== 'string' || typeof peerUrl !== 'string')
    throw new ConsensusError('consensus-slot-damaged', `reading ${SLOT_INTENT_KEY}`);
  if (memberId === undefined) return { nodeId, peerUrl };
  if (typeof memberId !== 'string' || !/^[0-9a-f]{1,16}$/.test(memberId))
    throw new ConsensusError('consensus-slot-damaged', `reading ${SLOT_INTENT_KEY}`);
  return { nodeId, peerUrl, memberId };
}
