import { z } from 'zod';
import { childSignal, withTimeout } from '../../../internal/cleanup/index.ts';
import { isAbort } from '../../../internal/errors/index.ts';
import {
  put,
  remove,
  unchanged,
  type Entry,
  type KeySpace,
  type Write,
} from '../../../internal/etcd/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import {
  SLOT_INTENT_KEY,
  SLOT_PACE_KEY,
  SLOT_QUEUE_PREFIX,
  slotPositions,
} from '../../../internal/records/index.ts';
import { ConsensusError } from '../errors.ts';

/**
 * Lifetime of the lease of the membership slot. A node may change the members of etcd only while it holds
 * this slot: one node at a time, in the order of their requests. The keys are in
 * internal/records/control-plane-slot.ts. The holder's writes are conditional on its queue key, so a holder
 * whose lease has expired cannot write.
 */
const TTL_SECONDS = 15;
const RENEW_MS = 4_000;
const RELEASE_MS = 3_000;
const MAX_JSON = 4096;

const intentShape = z.object({
  nodeId: z.string(),
  peerUrl: z.string(),
  /** Lower-case hex; absent until etcd has assigned an id. */
  memberId: z.exactOptional(z.string().regex(/^[0-9a-f]{1,16}$/)),
});

/** A change of the members that the slot holder has begun. */
export type Intent = Readonly<z.infer<typeof intentShape>>;

/** Ports (injected dependencies) of the slot. */
export interface SlotPorts extends Pick<SystemPorts, 'clock' | 'log'> {
  /** The records of the cluster. */
  readonly etcd: KeySpace;
}

/** A request for the membership slot of etcd. */
export interface SlotOptions {
  readonly nodeId: string;
  /**
   * Called while other nodes are ahead in the queue, with the position (1 for the next node) and an estimate
   * of the wait.
   */
  readonly onPosition: (position: number, estimateMs: number) => void;
  readonly signal: AbortSignal;
}

/** The membership slot while this node holds it. */
export interface Slot {
  /** Aborted when the caller's signal is aborted, and when this node loses the slot. */
  readonly signal: AbortSignal;
  readIntent(): Promise<Intent | undefined>;
  /** @throws ConsensusError `consensus-slot-lost` if another node holds the slot by now */
  writeIntent(intent: Intent | undefined): Promise<void>;
}

/** Waits for the slot, runs `work` while this node holds it, and releases it. */
export async function withSlot<T>(
  ports: SlotPorts,
  options: SlotOptions,
  work: (slot: Slot) => Promise<T>,
): Promise<T> {
  const { etcd, clock } = ports;
  const { nodeId, signal } = options;
  const leaseId = await etcd.grantLease(TTL_SECONDS, { signal });
  using held = childSignal(signal);
  const renewing = keepAlive(ports, leaseId, held).catch((error: unknown) => held.abort(error));
  try {
    const key = SLOT_QUEUE_PREFIX + nodeId;
    // An earlier run of this agent may be in the queue. Its position is kept, its lease is replaced.
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
    held.abort(new Error('the slot is released'));
    await renewing;
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
      if (written.kind === 'committed') return;
      const message = 'changing the members of etcd: another node holds the slot';
      throw new ConsensusError('consensus-slot-lost', message);
    },
  };
}

async function untilFirst({ etcd }: SlotPorts, options: SlotOptions): Promise<void> {
  const { nodeId, signal, onPosition } = options;
  const pace = await etcd.get(SLOT_PACE_KEY, { signal });
  for await (const event of etcd.watch(SLOT_QUEUE_PREFIX, { signal })) {
    if (event.kind === 'interrupted' || event.kind === 'progress') continue;
    const { entries } = await etcd.list(SLOT_QUEUE_PREFIX, { signal });
    const queued = slotPositions(entries, pace?.value).get(nodeId);
    if (queued?.position === 0) return;
    if (queued === undefined) {
      const message = 'waiting to change the members of etcd: the lease expired';
      throw new ConsensusError('consensus-slot-lost', message);
    }
    onPosition(queued.position, queued.estimateMs);
  }
}

async function keepAlive(
  { etcd, clock, log }: SlotPorts,
  leaseId: bigint,
  held: { readonly signal: AbortSignal },
): Promise<never> {
  let endMs = clock.monotonicMs() + TTL_SECONDS * 1000;
  for (;;) {
    await clock.sleep(RENEW_MS, held.signal);
    try {
      const left = await etcd.keepLeaseAlive(leaseId, { signal: held.signal });
      if (left === undefined)
        throw new ConsensusError(
          'consensus-slot-lost',
          'renewing the membership slot of etcd: the lease expired',
        );
      endMs = clock.monotonicMs() + left * 1000;
    } catch (error) {
      if (isAbort(error, held.signal) || error instanceof ConsensusError) throw error;
      // etcd has no leader for a moment after each change of members. The lease ends only when its time is
      // over.
      log.info('renewing the membership slot of etcd failed, retrying', { error });
      if (clock.monotonicMs() > endMs)
        throw new ConsensusError('consensus-slot-lost', 'renewing the membership slot of etcd', {
          cause: error,
        });
    }
  }
}

/** Releases the slot. If that fails, the slot expires. */
async function release({ etcd, clock, log }: SlotPorts, leaseId: bigint): Promise<void> {
  const { signal } = new AbortController();
  try {
    await withTimeout(
      { what: 'releasing the membership slot of etcd', ms: RELEASE_MS, clock, signal },
      (child) => etcd.revokeLease(leaseId, { signal: child }),
    );
  } catch (error) {
    log.info('releasing the membership slot of etcd failed, it expires by itself', { error });
  }
}

function encode(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ version: 1, ...value }));
}

/** Only control planes can write this key, so unreadable content is an error. */
function intentFrom(value: Uint8Array): Intent {
  try {
    if (value.length > MAX_JSON) throw new RangeError(`${value.length} bytes, at most ${MAX_JSON} allowed`);
    return intentShape.parse(JSON.parse(new TextDecoder().decode(value)));
  } catch (cause) {
    throw new ConsensusError('consensus-slot-damaged', `record ${SLOT_INTENT_KEY} is damaged`, { cause });
  }
}
