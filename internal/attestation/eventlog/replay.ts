import { createHash } from 'node:crypto';
import { EventlogError } from './errors.ts';
import { EV_NO_ACTION } from './event-types.ts';
import type { EventLog, LogEvent } from './parse.ts';

/** Hash algorithms that can be replayed. */
type ReplayHash = 'sha256' | 'sha384' | 'sha512';

const SIZE_BYTES: Readonly<Record<ReplayHash, number>> = { sha256: 32, sha384: 48, sha512: 64 };
const STARTUP_LOCALITY = Buffer.from('StartupLocality\0', 'latin1');

/**
 * Computes the registers after all events. They start at zero, except for PCR 0 if the TPM was started from a locality
 * other than 0. Registers without events are absent from the result. Throws EventlogError.
 */
export function replayEventLog(log: EventLog, hash: ReplayHash): ReadonlyMap<number, Uint8Array> {
  if (!log.hashes.includes(hash)) {
    throw new EventlogError('eventlog-bank-missing', 'replaying an event log', {
      expected: hash,
      actual: log.hashes.join(', '),
    });
  }
  const values = new Map<number, Uint8Array>();
  const startOfPcr0 = startValue(log, SIZE_BYTES[hash]);
  for (const event of log.events) {
    if (event.type === EV_NO_ACTION) continue;
    const { register } = event;
    const before = values.get(register) ?? (register === 0 ? startOfPcr0 : new Uint8Array(SIZE_BYTES[hash]));
    values.set(register, extend(hash, before, digestOf(event, hash)));
  }
  return values;
}

/**
 * Checks that a log replays to the quoted values. A register without events must have its start value, so that omitting its
 * events does not help an attacker. Throws EventlogError `eventlog-replay` for the first difference.
 */
export function verifyEventLog(
  log: EventLog,
  hash: ReplayHash,
  quoted: ReadonlyMap<number, Uint8Array>,
): void {
  const replayed = replayEventLog(log, hash);
  for (const [register, value] of quoted) {
    const expected = replayed.get(register) ?? new Uint8Array(SIZE_BYTES[hash]);
    if (Buffer.compare(expected, value) !== 0) {
      throw new EventlogError('eventlog-replay', `replaying register ${register}`, {
        expected: Buffer.from(expected).toString('hex'),
        actual: Buffer.from(value).toString('hex'),
        details: { register },
      });
    }
  }
}

/**
 * Whether the extended digest is the hash of the event's data, so that the register proves the data. For most event types the
 * digest covers something else (a whole file, a partition table), and the data can be altered by anybody.
 */
export function isDataMeasured(event: LogEvent, hash: ReplayHash): boolean {
  const digest = event.digests.get(hash);
  return (
    event.type !== EV_NO_ACTION &&
    digest !== undefined &&
    Buffer.compare(digest, createHash(hash).update(event.data).digest()) === 0
  );
}

/** The start value of PCR 0: its last byte is the StartupLocality (PFP 10.4.5.3), if the log has this record. */
function startValue(log: EventLog, sizeBytes: number): Uint8Array {
  const value = new Uint8Array(sizeBytes);
  const firstOfPcr0 = log.events.findIndex((event) => event.register === 0 && event.type !== EV_NO_ACTION);
  const records = log.events
    .map((event, index) => ({ event, index }))
    .filter(({ event }) => isStartupLocality(event));
  const [record] = records;
  if (record === undefined) return value;
  const { data } = record.event;
  const locality = data.length === STARTUP_LOCALITY.length + 1 ? data.at(-1) : undefined;
  const late = firstOfPcr0 >= 0 && record.index > firstOfPcr0;
  // Only localities 0, 3 and 4 (H-CRTM) can send TPM2_Startup (PFP 10.4.5.3).
  if (records.length > 1 || late || (locality !== 0 && locality !== 3 && locality !== 4)) {
    throw new EventlogError('eventlog-locality', 'replaying PCR 0', {
      expected: 'one StartupLocality of 0, 3 or 4 before PCR 0 is extended',
      actual: `${records.length} with locality ${locality ?? 'of another form'}${late ? ', after PCR 0 was extended' : ''}`,
    });
  }
  value[sizeBytes - 1] = locality;
  return value;
}

function isStartupLocality(event: LogEvent): boolean {
  const start = event.data.subarray(0, STARTUP_LOCALITY.length);
  return event.type === EV_NO_ACTION && event.register === 0 && Buffer.compare(start, STARTUP_LOCALITY) === 0;
}

function extend(hash: ReplayHash, before: Uint8Array, digest: Uint8Array): Uint8Array {
  return new Uint8Array(createHash(hash).update(before).update(digest).digest());
}

function digestOf(event: LogEvent, hash: ReplayHash): Uint8Array {
  const digest = event.digests.get(hash);
  // Cannot happen: the parser refuses an event without a digest for each algorithm of the header.
  if (digest === undefined) throw new EventlogError('eventlog-digests', 'replaying an event log');
  return digest;
}
