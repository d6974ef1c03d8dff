import { EventlogError } from './errors.ts';
import { EV_NO_ACTION } from './event-types.ts';
import { LogReader } from './reader.ts';

/** Hash algorithms of a log. Digests of SHA-1 and SM3 are parsed but never used. */
type LogHash = 'sha1' | 'sha256' | 'sha384' | 'sha512' | 'sm3';

const HASHES: ReadonlyMap<number, { readonly name: LogHash; readonly sizeBytes: number }> = new Map([
  [0x04, { name: 'sha1', sizeBytes: 20 }],
  [0x0b, { name: 'sha256', sizeBytes: 32 }],
  [0x0c, { name: 'sha384', sizeBytes: 48 }],
  [0x0d, { name: 'sha512', sizeBytes: 64 }],
  [0x12, { name: 'sm3', sizeBytes: 32 }],
]);

/** `tpm`: registers are PCRs (TCG PFP). `ccel`: the log of a TD; register 0 is MRTD, 1 to 4 are RTMR0 to RTMR3. */
type LogKind = 'tpm' | 'ccel';

const MAX_REGISTER: Readonly<Record<LogKind, number>> = { tpm: 23, ccel: 4 };

/** An event of the log. */
export interface LogEvent {
  /** PCR index, or measurement register index of a CCEL, as it stands in the log. */
  readonly register: number;
  readonly type: number;
  readonly digests: ReadonlyMap<LogHash, Uint8Array>;
  /**
   * The firmware's description of what it measured. Anybody could have altered it unless `isDataMeasured()` is true.
   */
  readonly data: Uint8Array;
}

/** A parsed log. */
export interface EventLog {
  readonly kind: LogKind;
  readonly hashes: readonly LogHash[];
  readonly events: readonly LogEvent[];
}

/** Size limit of a log. A padded CCEL area is at most this large. */
export const MAX_LOG_BYTES = 256 * 1024;
const MAX_ALGORITHMS = 5;
const SPEC_ID = Buffer.from('Spec ID Event03\0', 'latin1');

/**
 * Parses a crypto-agile log (TCG PC Client Platform Firmware Profile, chapter 10). Does not prove anything: replay the log to
 * quoted registers. Throws only EventlogError.
 */
export function parseEventLog(bytes: Uint8Array, kind: LogKind): EventLog {
  if (bytes.length > MAX_LOG_BYTES) {
    const compared = { expected: `at most ${MAX_LOG_BYTES} bytes`, actual: `${bytes.length} bytes` };
    throw new EventlogError('eventlog-too-large', 'reading an event log', compared);
  }
  const reader = new LogReader(bytes);
  const sizes = readHeader(reader);
  const events: LogEvent[] = [];
  while (reader.remaining > 0 && !isPadding(reader)) events.push(readEvent(reader, kind, sizes));
  return { kind, hashes: [...sizes.keys()], events };
}

/** TCG_PCR_EVENT with TCG_EfiSpecIdEvent: a record in the old format that describes the records in the new format. */
function readHeader(reader: LogReader): ReadonlyMap<LogHash, number> {
  const register = reader.u32('header register');
  const type = reader.u32('header type');
  const digest = reader.bytes(20, 'header digest');
  // The header of a CCEL is in register 0 or 1, depending on the firmware.
  if (register > 1 || type !== EV_NO_ACTION || digest.some((byte) => byte !== 0)) throw headerError('record');
  const record = new LogReader(reader.bytes(reader.u32('header size'), 'header'));
  if (Buffer.compare(record.bytes(16, 'signature'), SPEC_ID) !== 0) throw headerError('signature');
  record.u32('platform class');
  // Version 2.0 is the only one that is specified.
  if (record.u8('minor version') !== 0) throw headerError('minor version');
  if (record.u8('major version') !== 2) throw headerError('major version');
  record.u8('errata');
  record.u8('size of UINTN');
  const sizes = readAlgorithms(record);
  record.bytes(record.u8('size of vendor information'), 'vendor information');
  if (record.remaining !== 0) throw headerError('size');
  return sizes;
}

function readAlgorithms(record: LogReader): ReadonlyMap<LogHash, number> {
  const count = record.u32('number of algorithms');
  if (count === 0 || count > MAX_ALGORITHMS) throw algorithmError(`${count} algorithms`);
  const sizes = new Map<LogHash, number>();
  for (let index = 0; index < count; index++) {
    const id = record.u16('algorithm');
    const size = record.u16('digest size');
    const hash = HASHES.get(id);
    if (hash === undefined || hash.sizeBytes !== size) throw algorithmError(`${id} of ${size} bytes`);
    if (sizes.has(hash.name)) throw algorithmError(`duplicate ${hash.name}`);
    sizes.set(hash.name, size);
  }
  return sizes;
}

/** TCG_PCR_EVENT2. */
function readEvent(reader: LogReader, kind: LogKind, sizes: ReadonlyMap<LogHash, number>): LogEvent {
  const register = reader.u32('register');
  if (register > MAX_REGISTER[kind]) {
    throw new EventlogError('eventlog-register', `reading an event before byte ${reader.offset}`, {
      expected: `0 to ${MAX_REGISTER[kind]}`,
      actual: `${register}`,
    });
  }
  const type = reader.u32('event type');
  const count = reader.u32('number of digests');
  if (count !== sizes.size) throw digestError(reader, `${sizes.size} digests`, `${count}`);
  const digests = new Map<LogHash, Uint8Array>();
  for (let index = 0; index < count; index++) {
    const hash = HASHES.get(reader.u16('digest algorithm'))?.name;
    const size = hash === undefined ? undefined : sizes.get(hash);
    if (hash === undefined || size === undefined || digests.has(hash)) {
      throw digestError(reader, 'each algorithm of the header once', hash ?? 'an unknown one');
    }
    digests.set(hash, reader.bytes(size, `${hash} digest`));
  }
  return { register, type, digests, data: reader.bytes(reader.u32('event size'), 'event data') };
}

/**
 * Firmware provides areas that are larger than the log and padded. No event starts like padding: 0xffffffff is not a register,
 * and an event has at least one digest.
 */
function isPadding(reader: LogReader): boolean {
  const rest = reader.rest();
  const start = rest.subarray(0, 12);
  const filler = start[0];
  if ((filler !== 0 && filler !== 0xff) || start.some((byte) => byte !== filler)) return false;
  if (filler === 0 && start.length < 12) return false; // a truncated event of register 0, not padding
  if (rest.some((byte) => byte !== filler)) {
    throw new EventlogError('eventlog-padding', `reading the padding at byte ${reader.offset}`);
  }
  return true;
}

function headerError(field: string): EventlogError {
  return new EventlogError('eventlog-header', `reading the header of an event log: ${field}`);
}

function algorithmError(actual: string): EventlogError {
  return new EventlogError('eventlog-algorithms', 'reading the header of an event log', { actual });
}

function digestError(reader: LogReader, expected: string, actual: string): EventlogError {
  return new EventlogError('eventlog-digests', `reading an event before byte ${reader.offset}`, {
    expected,
    actual,
  });
}
