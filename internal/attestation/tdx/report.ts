import { LittleEndianReader } from '../bytes.ts';

/** The TDREPORT body of a quote (Intel 348551, TD quote body). */
export interface TdReport {
  readonly bodyType: 2 | 3 | 4;
  readonly teeTcbSvn: Uint8Array;
  readonly mrSeam: Uint8Array;
  readonly mrSignerSeam: Uint8Array;
  readonly seamAttributes: Uint8Array;
  readonly attributes: TdAttributes;
  readonly xfam: Uint8Array;
  readonly mrTd: Uint8Array;
  readonly mrConfigId: Uint8Array;
  readonly mrOwner: Uint8Array;
  readonly mrOwnerConfig: Uint8Array;
  /** RTMR0 to RTMR3. */
  readonly rtmrs: readonly Uint8Array[];
  /** 64 bytes that the machine chose: the binding. */
  readonly reportData: Uint8Array;
  /** TD 1.5 and later: the current TCB, which a TD-preserving update may have raised above the TCB at launch. */
  readonly teeTcbSvn2: Uint8Array | undefined;
  /** TD 1.5 and later. */
  readonly mrServiceTd: Uint8Array | undefined;
}

/** TD attributes (348551-008, table 3.23). */
export interface TdAttributes {
  readonly raw: bigint;
  /** Any bit of the TUD group: the TD is under debug or profiling and cannot be trusted. */
  readonly underDebug: boolean;
  readonly septVeDisable: boolean;
  readonly migratable: boolean;
  readonly serviceTdExtension: boolean;
  /** Whether a reserved bit is set. */
  readonly hasReservedBits: boolean;
}

/** Sizes of the TD report bodies: 1.0, 1.5 and extended 1.5. */
export const TD_BODY_BYTES: Readonly<Record<TdReport['bodyType'], number>> = { 2: 584, 3: 648, 4: 885 };

const RESERVED_ATTRIBUTES = bits(7, 15) | bits(23, 26) | bits(32, 61);

/** Parses a body, which must have the size of its type. */
export function parseTdReport(bodyType: TdReport['bodyType'], body: Uint8Array): TdReport {
  const at = new LittleEndianReader(body);
  const hasSecondTcb = bodyType !== 2;
  return {
    bodyType,
    teeTcbSvn: at.bytes(0, 16),
    mrSeam: at.bytes(16, 48),
    mrSignerSeam: at.bytes(64, 48),
    seamAttributes: at.bytes(112, 8),
    attributes: parseAttributes(at.u64(120)),
    xfam: at.bytes(128, 8),
    mrTd: at.bytes(136, 48),
    mrConfigId: at.bytes(184, 48),
    mrOwner: at.bytes(232, 48),
    mrOwnerConfig: at.bytes(280, 48),
    rtmrs: [0, 1, 2, 3].map((index) => at.bytes(328 + 48 * index, 48)),
    reportData: at.bytes(520, 64),
    teeTcbSvn2: hasSecondTcb ? at.bytes(584, 16) : undefined,
    mrServiceTd: hasSecondTcb ? at.bytes(600, 48) : undefined,
  };
}

function parseAttributes(raw: bigint): TdAttributes {
  const isSet = (bit: number): boolean => (raw & bits(bit, bit)) !== 0n;
  return {
    raw,
    underDebug: (raw & bits(0, 7)) !== 0n,
    serviceTdExtension: isSet(17),
    septVeDisable: isSet(28),
    migratable: isSet(29),
    hasReservedBits: (raw & RESERVED_ATTRIBUTES) !== 0n,
  };
}

function bits(from: number, to: number): bigint {
  return ((1n << BigInt(to - from + 1)) - 1n) << BigInt(from);
}
