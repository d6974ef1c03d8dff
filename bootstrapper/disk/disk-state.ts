import { parseLuksHeader } from '../../internal/luks/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  diskStateOf,
  encodeReady,
  parseRecord,
  SLOT_BYTES,
  StateDiskError,
  type DiskState,
  type RecordContent,
} from '../../internal/statedisk/index.ts';
import { Cryptsetup } from './cryptsetup.ts';
import { diskCounter } from './disk-counter.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { DiskError, type DiskErrorCode } from './errors.ts';
import { RecordSlots, type Slot } from './record-slots.ts';

/** A disk that is not empty, and was formatted. */
export type Ready = Extract<DiskState, { readonly kind: 'ready' }>;

/** The device of a state disk, with what its records say. */
export interface OpenDisk {
  readonly settings: DiskSettings;
  readonly slots: RecordSlots;
  readonly cryptsetup: Cryptsetup;
  readonly state: DiskState;
}

/** Reads the records of the disk once. */
export async function openDisk(
  ports: DiskPorts,
  settings: DiskSettings,
  signal: AbortSignal,
): Promise<OpenDisk> {
  const slots = await RecordSlots.open(ports, settings, signal);
  const state = diskStateOf(await slots.read(signal));
  return { settings, slots, state, cryptsetup: new Cryptsetup(ports, settings, slots.device, signal) };
}

/** @throws DiskError with this code if the disk is not formatted */
export function requireReady(state: DiskState, code: DiskErrorCode): Ready {
  if (state.kind === 'ready') return state;
  throw new DiskError(code, 'reading the record of the state disk: not formatted');
}

/** Makes a record the current one. Until the counter is incremented, the record before it still counts. */
export async function commit(
  { tpm }: DiskPorts,
  next: {
    readonly slots: RecordSlots;
    readonly slot: Slot;
    readonly content: RecordContent;
    readonly key: Secret<Uint8Array>;
  },
  signal: AbortSignal,
): Promise<void> {
  const { slots, slot, content, key } = next;
  const counter = await tpm.use(signal, (connection) => diskCounter.read(connection, signal));
  const record = encodeReady((counter ?? 0n) + 1n, content, key);
  requireReadable(record, key);
  await slots.write(slot, record);
  await tpm.use(signal, (connection) => diskCounter.increment(connection, signal));
  await slots.wipe(slot === 0 ? 1 : 0);
}

/** Reads a record as the next start will: it replaces the good one, without which nobody opens the disk. */
function requireReadable(record: Uint8Array, key: Secret<Uint8Array>): void {
  const slot = new Uint8Array(SLOT_BYTES);
  slot.set(record);
  const found = parseRecord(slot);
  if (found.kind !== 'ready') throw new TypeError(`the new record of the state disk is ${found.kind}`);
  found.verify(key);
  checkHeader(found.content);
}

/** @throws LuksError, StateDiskError `statedisk-changed` */
export function checkHeader({ header, uuid }: RecordContent): void {
  if (parseLuksHeader(header).uuid !== uuid)
    throw new StateDiskError('statedisk-changed', 'comparing the record with its header: other UUID');
}
