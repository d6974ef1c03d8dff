import { PCR_COUNT, readPcrs, type Tpm } from '../../tpm/index.ts';
import type { FilePort } from '../../file/index.ts';
import { isZero, toHex } from '../bytes.ts';
import {
  eventTypeName,
  isDataMeasured,
  parseEventLog,
  replayEventLog,
  type LogEvent,
} from '../eventlog/index.ts';
import { MAX_ATTACHED_LOG_BYTES } from './issuer.ts';
import { RESETTABLE_PCRS } from './rules.ts';

/** The registers of a machine, from which reference values are made. */
export interface MachineMeasurement {
  /** In the form of the policy: accepted values by register name. Only registers that were extended. */
  readonly registers: Readonly<
    Record<string, { readonly accepted: readonly string[]; readonly warnOnly: false }>
  >;
  /** All 24 PCRs in hex, also those that are zero or resettable and cannot be reference values. */
  readonly values: Readonly<Record<string, string>>;
  readonly eventLog: MeasuredLog | undefined;
}

/** The firmware event log of a machine. */
interface MeasuredLog {
  /**
   * `explained`: names of the registers to whose values the log replays. `unexplained`: registers that software
   * extended without logging it.
   */
  readonly explained: readonly string[];
  readonly unexplained: readonly string[];
  readonly events: readonly MeasuredEvent[];
}

/** An event of the log. */
interface MeasuredEvent {
  readonly register: string;
  readonly type: string;
  readonly sha256: string;
  /** Whether the register covers `text`, so that nobody can have altered it. */
  readonly dataMeasured: boolean;
  /** Printable part of the event's data. */
  readonly text: string;
}

/** The TPM and the event log to read. */
export interface MeasureOptions {
  readonly tpm: Tpm;
  readonly eventLog?: { readonly files: FilePort; readonly path: string };
}

const MAX_TEXT = 120;

/** Reads all registers and the event log of this machine. The result is not signed, so the machine must be trusted. */
export async function measureMachine(
  options: MeasureOptions,
  signal: AbortSignal,
): Promise<MachineMeasurement> {
  const pcrs = Array.from({ length: PCR_COUNT }, (_, pcr) => pcr);
  const values = await options.tpm.use(signal, (connection, taskSignal) =>
    readPcrs(connection, { hash: 'sha256', pcrs }, taskSignal),
  );
  const used = [...values].filter(([pcr, value]) => !isUnused(value) && !RESETTABLE_PCRS.includes(pcr));
  return {
    registers: Object.fromEntries(
      used.map(([pcr, value]) => [`pcr${pcr}`, { accepted: [toHex(value)], warnOnly: false } as const]),
    ),
    values: Object.fromEntries([...values].map(([pcr, value]) => [`pcr${pcr}`, toHex(value)])),
    eventLog: await measureLog(options, values),
  };
}

async function measureLog(
  { eventLog }: MeasureOptions,
  values: ReadonlyMap<number, Uint8Array>,
): Promise<MeasuredLog | undefined> {
  const bytes = await eventLog?.files.read(eventLog.path, MAX_ATTACHED_LOG_BYTES * 4);
  if (bytes === undefined || bytes.length === 0) return undefined;
  const log = parseEventLog(bytes, 'tpm');
  const replayed = replayEventLog(log, 'sha256');
  const matches = (pcr: number): boolean => {
    const [quoted, expected] = [values.get(pcr), replayed.get(pcr)];
    return quoted !== undefined && expected !== undefined && Buffer.compare(quoted, expected) === 0;
  };
  const registers = [...values].filter(([, value]) => !isUnused(value)).map(([pcr]) => pcr);
  return {
    explained: registers.filter(matches).map((pcr) => `pcr${pcr}`),
    unexplained: registers.filter((pcr) => !matches(pcr)).map((pcr) => `pcr${pcr}`),
    events: log.events.map(describeEvent),
  };
}

function describeEvent(event: LogEvent): MeasuredEvent {
  return {
    register: `pcr${event.register}`,
    type: eventTypeName(event.type),
    sha256: toHex(event.digests.get('sha256') ?? new Uint8Array()),
    dataMeasured: isDataMeasured(event, 'sha256'),
    text: printable(event.data),
  };
}

/** The printable ASCII characters of firmware strings, which are ASCII or UTF-16. */
function printable(data: Uint8Array): string {
  const text = Buffer.from(data.filter((byte) => byte >= 0x20 && byte < 0x7f)).toString('latin1');
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

/** Whether a register has its start value: zero, or all ones for the registers of a dynamic launch. */
function isUnused(value: Uint8Array): boolean {
  return isZero(value) || value.every((byte) => byte === 0xff);
}
