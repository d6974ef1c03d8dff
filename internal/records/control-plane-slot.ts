/**
 * The queue of control planes that wait to change the members of etcd, one at a time. The nodes write the queue
 * themselves (bootstrapper/consensus/membership/slot.ts); curators read the queue to show positions.
 *
 * ```
 * slots/control-plane/queue/NODE   on the lease of the node; the oldest entry holds the slot
 * slots/control-plane/intent       the change of the holder; outlives it, so that the next holder can clean up
 * slots/control-plane/pace         duration of the last change, for estimates
 * ```
 */
export const SLOT_QUEUE_PREFIX = 'slots/control-plane/queue/';
/** Key of the change that the holder makes. */
export const SLOT_INTENT_KEY = 'slots/control-plane/intent';
/** Key of the duration of the last change. */
export const SLOT_PACE_KEY = 'slots/control-plane/pace';

const FIRST_PACE_MS = 15_000;
const MAX_PACE_BYTES = 4096;

/** Position 0 holds the slot, position 1 is next. */
export interface SlotPosition {
  readonly position: number;
  readonly estimateMs: number;
}

/** The position of each node by its id. `queue` may be in any order; `pace` is the recorded duration of the last change as JSON, undefined before the first change. */
export function slotPositions(
  queue: readonly { readonly key: string; readonly createRevision: bigint }[],
  pace: Uint8Array | undefined,
): ReadonlyMap<string, SlotPosition> {
  const paceMs = slotPaceMs(pace);
  const order = queue.toSorted((a, b) => Number(a.createRevision - b.createRevision));
  return new Map(
    order.map(({ key }, position) => [
      key.slice(SLOT_QUEUE_PREFIX.length),
      { position, estimateMs: position * paceMs },
    ]),
  );
}

/** The expected duration of one change; a default when the record is missing or damaged. */
function slotPaceMs(pace: Uint8Array | undefined): number {
  if (pace === undefined || pace.length > MAX_PACE_BYTES) return FIRST_PACE_MS;
  try {
    const { durationMs } = JSON.parse(new TextDecoder().decode(pace)) as { readonly durationMs?: unknown };
    return typeof durationMs === 'number' && durationMs >= 0 ? durationMs : FIRST_PACE_MS;
  } catch {
    return FIRST_PACE_MS;
  }
}
