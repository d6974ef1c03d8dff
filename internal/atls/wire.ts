import { AtlsError } from './errors.ts';

/** ALPN id of aTLS/1. TLS with a plain gRPC peer fails in ALPN, before any frame. */
export const ALPN_ID = 'atls-h2/1';
/** Version byte of every frame. */
export const FRAME_VERSION = 1;
/** Size of a frame header: type u8, version u8, body size u32. */
export const HEADER_BYTES = 6;
/** Size of the nonce in a HELLO. */
export const NONCE_BYTES = 32;
/** The largest number of formats in a HELLO. */
export const MAX_FORMATS = 16;
/** "No evidence". Sent only in a one-way mode, and never together with another format. */
export const FORMAT_NONE = 0;
/** Limit of a HELLO body. Limits are checked against the header before the body is read. */
export const MAX_HELLO_BYTES = 256;
/** Limit of an EVIDENCE body: format u16, document. */
export const MAX_EVIDENCE_BYTES = 64 * 1024;
/** Limit of the document in an EVIDENCE body. */
export const MAX_DOCUMENT_BYTES = MAX_EVIDENCE_BYTES - 2;
const MAX_ALERT_BYTES = 1;

/** Type byte of each frame. */
export const FRAME = { hello: 1, evidence: 2, ready: 3, alert: 15 } as const;
/** Kind of a frame. */
export type FrameKind = keyof typeof FRAME;

/** The reasons for which an end closes the connection. The peer learns only this byte. */
export const ALERT = {
  protocol: 1,
  tooLarge: 2,
  timeout: 3,
  evidenceRejected: 4,
  internal: 5,
  busy: 6,
  noCommonFormat: 7,
} as const;
/** Name of an alert code. */
export type Alert = keyof typeof ALERT;

const BODY_LIMIT: Readonly<Record<FrameKind, number>> = {
  hello: MAX_HELLO_BYTES,
  evidence: MAX_EVIDENCE_BYTES,
  ready: 0,
  alert: MAX_ALERT_BYTES,
};

/** A parsed frame header. */
export interface FrameHeader {
  readonly kind: FrameKind;
  readonly bodyBytes: number;
}

/** The body of a HELLO frame. */
export interface Hello {
  /** Formats of evidence that the sender accepts from its peer, best first. */
  readonly accepts: readonly number[];
  readonly nonce: Uint8Array;
}

/** The body of an EVIDENCE frame. */
export interface Evidence {
  readonly format: number;
  readonly document: Uint8Array;
}

/** Parses the peer's header. Refuses a body above the limit of its kind, before the body is read. Throws AtlsError. */
export function parseHeader(bytes: Uint8Array): FrameHeader {
  const view = viewOf(bytes);
  const type = view.getUint8(0);
  const version = view.getUint8(1);
  const bodyBytes = view.getUint32(2);
  if (version !== FRAME_VERSION) {
    throw new AtlsError(
      'atls-frame-version',
      `reading a frame: version ${version}, ${FRAME_VERSION} expected`,
    );
  }
  const kind = FRAME_KINDS.get(type);
  if (kind === undefined) throw new AtlsError('atls-frame-type', `reading a frame: unknown type ${type}`);
  if (bodyBytes > BODY_LIMIT[kind]) {
    const limit = BODY_LIMIT[kind];
    throw new AtlsError(
      'atls-frame-too-large',
      `reading ${kind}: ${bodyBytes} bytes, at most ${limit} allowed`,
    );
  }
  return { kind, bodyBytes };
}

/** Encodes a HELLO frame. */
export function encodeHello(hello: Hello): Uint8Array {
  const body = new Uint8Array(2 + 2 * hello.accepts.length + NONCE_BYTES);
  const view = viewOf(body);
  view.setUint8(1, hello.accepts.length);
  hello.accepts.forEach((format, index) => view.setUint16(2 + 2 * index, format));
  body.set(hello.nonce, 2 + 2 * hello.accepts.length);
  return encodeFrame('hello', body);
}

/** Parses the peer's HELLO body. Throws AtlsError `atls-frame-malformed`. */
export function parseHello(body: Uint8Array): Hello {
  const [flags, count] = body;
  if (flags !== 0) throw malformed('hello', `flags ${flags ?? 'missing'}, 0 expected`);
  if (count === undefined || count < 1 || count > MAX_FORMATS) {
    throw malformed('hello', `${count ?? 'no'} formats, 1 to ${MAX_FORMATS} expected`);
  }
  const expectedBytes = 2 + 2 * count + NONCE_BYTES;
  if (body.length !== expectedBytes)
    throw malformed('hello', `${body.length} bytes, ${expectedBytes} expected`);
  const view = viewOf(body);
  const accepts = Array.from({ length: count }, (_, index) => view.getUint16(2 + 2 * index));
  if (new Set(accepts).size !== count) throw malformed('hello', 'a format is listed twice');
  if (count > 1 && accepts.includes(FORMAT_NONE))
    throw malformed('hello', 'format "none" together with another format');
  return { accepts, nonce: body.slice(2 + 2 * count) };
}

/** Encodes an EVIDENCE frame. */
export function encodeEvidence(evidence: Evidence): Uint8Array {
  const body = new Uint8Array(2 + evidence.document.length);
  viewOf(body).setUint16(0, evidence.format);
  body.set(evidence.document, 2);
  return encodeFrame('evidence', body);
}

/** Parses the peer's EVIDENCE body; the document is a view of `body`. Throws AtlsError `atls-frame-malformed`. */
export function parseEvidence(body: Uint8Array): Evidence {
  if (body.length < 2) throw malformed('evidence', `${body.length} bytes, at least 2 expected`);
  return { format: viewOf(body).getUint16(0), document: body.subarray(2) };
}

/** Encodes a READY frame. */
export function encodeReady(): Uint8Array {
  return encodeFrame('ready', new Uint8Array(0));
}

/** Encodes an ALERT frame. */
export function encodeAlert(alert: Alert): Uint8Array {
  return encodeFrame('alert', Uint8Array.of(ALERT[alert]));
}

/**
 * Parses the peer's ALERT body. Returns undefined for a code that this version does not know; such an alert ends the
 * handshake too.
 */
export function parseAlert(body: Uint8Array): Alert | undefined {
  if (body.length !== 1) throw malformed('alert', `${body.length} bytes, 1 expected`);
  return ALERT_NAMES.get(body[0]);
}

const FRAME_KINDS: ReadonlyMap<number, FrameKind> = invert(FRAME);
const ALERT_NAMES: ReadonlyMap<number | undefined, Alert> = invert(ALERT);

function encodeFrame(kind: FrameKind, body: Uint8Array): Uint8Array {
  if (body.length > BODY_LIMIT[kind])
    throw new RangeError(`encoding ${kind}: ${body.length} bytes, at most ${BODY_LIMIT[kind]} allowed`);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  frame.writeUInt8(FRAME[kind], 0);
  frame.writeUInt8(FRAME_VERSION, 1);
  frame.writeUInt32BE(body.length, 2);
  frame.set(body, HEADER_BYTES);
  return frame;
}

function malformed(what: FrameKind, why: string): AtlsError {
  return new AtlsError('atls-frame-malformed', `reading ${what}: ${why}`);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function invert<Name extends string>(table: Readonly<Record<Name, number>>): ReadonlyMap<number, Name> {
  return new Map(Object.entries<number>(table).map(([name, value]) => [value, name as Name]));
}
