import { parseRecord, SLOT_BYTES, type FoundRecord } from './disk-record.ts';
import { StateDiskError } from './errors.ts';

type Ready = Extract<FoundRecord, { readonly kind: 'ready' }>;

/** What the beginning of a disk says. */
export type DiskState =
  /** Nothing was ever written. */
  | { readonly kind: 'blank' }
  /** A formatting was cut before the disk was used. */
  | { readonly kind: 'formatting' }
  | {
      readonly kind: 'ready';
      readonly record: Ready;
      /** Which of the two places it is in: the next record goes into the other one. */
      readonly slot: 0 | 1;
      /** Whether the other place has anything: an earlier record, or a write that was cut. */
      readonly hasOther: boolean;
    };

/**
 * Says what to do with a disk. A cut write has a wrong checksum and does not count. Of intact records the one with the highest
 * sequence decides alone: if it is refused later, no earlier one is tried.
 * @param start the first `2 * SLOT_BYTES` bytes, controlled by an attacker
 * @throws StateDiskError `statedisk-foreign`, `statedisk-damaged`
 */
export function diskStateOf(start: Uint8Array): DiskState {
  const slots = [0, 1].map((slot) => parseRecord(start.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES)));
  const ready = slots.flatMap((record, slot) =>
    record.kind === 'ready' ? [readyIn(slots, record, slot === 0 ? 0 : 1)] : [],
  );
  const [first, second] = ready;
  if (first !== undefined) {
    return second !== undefined && second.record.sequence > first.record.sequence ? second : first;
  }
  if (slots.some(({ kind }) => kind === 'formatting')) return { kind: 'formatting' };
  if (slots.every(({ kind }) => kind === 'empty')) return { kind: 'blank' };
  const isOurs = slots.some((record) => record.kind === 'damaged' && record.isOurs);
  throw new StateDiskError(
    isOurs ? 'statedisk-damaged' : 'statedisk-foreign',
    'reading the records of the state disk',
  );
}

function readyIn(
  slots: readonly FoundRecord[],
  record: Ready,
  slot: 0 | 1,
): Extract<DiskState, { readonly kind: 'ready' }> {
  return { kind: 'ready', record, slot, hasOther: slots[1 - slot]?.kind !== 'empty' };
}

/**
 * Compares the sequence of a verified record with the TPM's counter. The record is written before the counter is incremented, so
 * that a crash between both leaves a record that is ahead by one.
 * @returns whether the counter has to be incremented
 * @throws StateDiskError `statedisk-rolled-back`
 */
export function isAheadOfCounter(sequence: bigint, counter: bigint | undefined): boolean {
  if (counter !== undefined && sequence === counter) return false;
  if (counter !== undefined && sequence === counter + 1n) return true;
  throw new StateDiskError(
    'statedisk-rolled-back',
    `comparing the state disk with the TPM: the disk has ${sequence}, the TPM ${counter ?? 'no counter'}`,
  );
}
