import { createHash } from 'node:crypto';

/**
 * Builds firmware event logs, including invalid ones. Little-endian, TCG PC Client Platform Firmware
 * Profile, chapter 10.
 */
export interface BuiltEvent {
  readonly register: number;
  readonly type: number;
  readonly data?: Uint8Array;
  /** Default: SHA-256 over the data. */
  readonly digest?: Uint8Array;
  /** The digests as [algorithm, bytes]; default: one SHA-256 digest. */
  readonly digests?: readonly (readonly [number, Uint8Array])[];
  readonly digestCount?: number;
  readonly dataSize?: number;
}

export interface BuiltHeader {
  readonly register?: number;
  readonly type?: number;
  readonly signature?: string;
  readonly majorVersion?: number;
  readonly algorithms?: readonly (readonly [number, number])[];
  readonly algorithmCount?: number;
  readonly trailing?: number;
  readonly size?: number;
}

export function buildLog(events: readonly BuiltEvent[], header: BuiltHeader = {}): Uint8Array {
  return new Uint8Array(Buffer.concat([buildHeader(header), ...events.map(buildEvent)]));
}

export function sha256(data: Uint8Array): Uint8Array {
  return new Uint8Array(createHash('sha256').update(data).digest());
}

/** EV_NO_ACTION with the locality that started the TPM. */
export function startupLocality(locality: number): BuiltEvent {
  const data = Buffer.concat([Buffer.from('StartupLocality\0', 'latin1'), Buffer.of(locality)]);
  return { register: 0, type: 3, data, digest: new Uint8Array(32) };
}

function buildHeader(header: BuiltHeader): Buffer {
  const { algorithms = [[0x0b, 32]], trailing = 0 } = header;
  const record = Buffer.concat([
    Buffer.from((header.signature ?? 'Spec ID Event03').padEnd(16, '\0'), 'latin1'),
    u32(0),
    Buffer.of(0, header.majorVersion ?? 2, 0, 2),
    u32(header.algorithmCount ?? algorithms.length),
    ...algorithms.map(([id, size]) => Buffer.concat([u16(id), u16(size)])),
    Buffer.of(0),
    Buffer.alloc(trailing),
  ]);
  const size = u32(header.size ?? record.length);
  return Buffer.concat([u32(header.register ?? 0), u32(header.type ?? 3), Buffer.alloc(20), size, record]);
}

function buildEvent(event: BuiltEvent): Buffer {
  const { register, type, data = new Uint8Array() } = event;
  const digests = event.digests ?? [[0x0b, event.digest ?? sha256(data)]];
  return Buffer.concat([
    u32(register),
    u32(type),
    u32(event.digestCount ?? digests.length),
    ...digests.map(([id, digest]) => Buffer.concat([u16(id), digest])),
    u32(event.dataSize ?? data.length),
    data,
  ]);
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
