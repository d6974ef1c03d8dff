import { parseRecord, SLOT_BYTES, type FoundRecord } from './disk-record.ts';
import { StateDiskError } from './errors.ts';

type Ready = Extract<FoundRecord, { readonly kind: 'ready' }>;

/** The state of a disk according to the records at its beginning. */
export type DiskState =
  /** Nothing was ever written. */
  | { readonly kind: 'blank' }
  /** A formatting was interrupted before the disk was used. */
  | { readonly kind: 'formatting' }
  | {
      readonly kind: 'ready';
      readonly record: Ready;
      /** The slot that contains the record. The next record is written to the other slot. */
      readonly slot: 0 | 1;
      /** Whether the other slot is not empty: it contains an earlier record, or an incomplete write. */
      readonly hasOther: boolean;
    };

/**
 * Determines the state of a disk. An incomplete write has a wrong checksum and is ignored. Of the intact records, only
 * the one with the highest sequence counts: if that record is refused later, the earlier record is not tried.
 * @param start the first `2 * SLOT_BYTES` bytes, controlled by an attacker
 * @throws StateDiskError `statedisk-foreign`, `statedisk-damaged`, `statedisk-unknown`
 */
export function diskStateOf(start: Uint8Array): DiskState {
  const slots = [0, 1].map((slot) => parseRecord(start.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES)));
  const ready = slots.flatMap((record, slot) =>
    record.kind === 'ready' ? [readyIn(slots, record, slot === 0 ? 0 : 1)] : [],
  );
  const [first, second] = ready;
  const newest =
    second !== undefined && second.record.sequence > (first?.record.sequence ?? 0n) ? second : first;
  const isUnknown = slots.some(
    (record) => record.kind === 'unknown' && record.sequence > (newest?.record.sequence ?? -1n),
  );
  if (isUnknown) throw new StateDiskError('statedisk-unknown', 'reading the records of the state disk');
  if (newest !== undefined) return newest;
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
    `comparing the state disk with the TPM: the disk has sequence ${sequence}, the TPM has ${counter ?? 'no counter'}`,
  );
}
