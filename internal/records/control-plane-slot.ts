/**
 * Where control planes wait for their turn to change etcd's members. Written by the nodes themselves
 * (bootstrapper/consensus/membership/slot.ts), read by whoever shows the queue.
 *
 * ```
 * slots/control-plane/queue/NODE   bound to the node's lease; the oldest one holds the slot
 * slots/control-plane/intent       what the holder is about; outlives it, so that the next one can clear up
 * slots/control-plane/pace         how long the last one took, for estimates
 * ```
 */
export const SLOT_QUEUE_PREFIX = 'slots/control-plane/queue/';
export const SLOT_INTENT_KEY = 'slots/control-plane/intent';
export const SLOT_PACE_KEY = 'slots/control-plane/pace';

const FIRST_PACE_MS = 15_000;
const MAX_PACE_BYTES = 4096;

/** `position`: 0 for the node that holds the slot, 1 for the next one. */
export interface SlotPosition {
  readonly position: number;
  readonly estimateMs: number;
}

/** Everybody's turn by node id. `queue` is in any order; `pace` as it is on record, or undefined before the first. */
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

/** How long one takes, in ms; of a record that cannot be read, what the first one is given. */
function slotPaceMs(pace: Uint8Array | undefined): number {
  if (pace === undefined || pace.length > MAX_PACE_BYTES) return FIRST_PACE_MS;
  try {
    const { durationMs } = JSON.parse(new TextDecoder().decode(pace)) as { readonly durationMs?: unknown };
    return typeof durationMs === 'number' && durationMs >= 0 ? durationMs : FIRST_PACE_MS;
  } catch {
    return FIRST_PACE_MS;
  }
}
