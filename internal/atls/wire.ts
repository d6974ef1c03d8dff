import { AtlsError } from './errors.ts';

/** The application protocol of aTLS/1. A plain gRPC peer fails on it inside TLS, before any frame. */
export const ALPN_ID = 'atls-h2/1';
export const FRAME_VERSION = 1;
export const HEADER_BYTES = 6;
export const NONCE_BYTES = 32;
export const MAX_FORMATS = 16;
/** "No evidence": only ever said by an end whose one-way mode names it, and never beside another format. */
export const FORMAT_NONE = 0;
/** Body limits, checked against the length field before one byte of the body is read. */
export const MAX_HELLO_BYTES = 256;
export const MAX_EVIDENCE_BYTES = 64 * 1024;
/** What is left of an EVIDENCE frame after its format. */
export const MAX_DOCUMENT_BYTES = MAX_EVIDENCE_BYTES - 2;
export const MAX_ALERT_BYTES = 1;

export const FRAME = { hello: 1, evidence: 2, ready: 3, alert: 15 } as const;
export type FrameKind = keyof typeof FRAME;

/** Why an end hangs up. The peer learns this byte and nothing else. */
export const ALERT = {
  protocol: 1,
  tooLarge: 2,
  timeout: 3,
  evidenceRejected: 4,
  internal: 5,
  busy: 6,
  noCommonFormat: 7,
} as const;
export type Alert = keyof typeof ALERT;

const BODY_LIMIT: Readonly<Record<FrameKind, number>> = {
  hello: MAX_HELLO_BYTES,
  evidence: MAX_EVIDENCE_BYTES,
  ready: 0,
  alert: MAX_ALERT_BYTES,
};

export interface FrameHeader {
  readonly kind: FrameKind;
  readonly bodyBytes: number;
}

/** `accepts`: the formats of evidence the sender takes from its peer, best first. */
export interface Hello {
  readonly accepts: readonly number[];
  readonly nonce: Uint8Array;
}

export interface Evidence {
  readonly format: number;
  readonly document: Uint8Array;
}

/** Reads a header. Every field is the peer's; the length is refused before the body is asked for. */
export function parseHeader(bytes: Uint8Array): FrameHeader {
  const view = viewOf(bytes);
  const type = view.getUint8(0);
  const version = view.getUint8(1);
  const bodyBytes = view.getUint32(2);
  if (version !== FRAME_VERSION) {
    throw new AtlsError('atls-frame-version', `reading a frame: version ${version}, want ${FRAME_VERSION}`);
  }
  const kind = FRAME_KINDS.get(type);
  if (kind === undefined) throw new AtlsError('atls-frame-type', `reading a frame: type ${type}`);
  if (bodyBytes > BODY_LIMIT[kind]) {
    const limit = BODY_LIMIT[kind];
    throw new AtlsError('atls-frame-too-large', `reading ${kind}: ${bodyBytes} bytes, at most ${limit}`);
  }
  return { kind, bodyBytes };
}

export function encodeHello(hello: Hello): Uint8Array {
  const body = new Uint8Array(2 + 2 * hello.accepts.length + NONCE_BYTES);
  const view = viewOf(body);
  view.setUint8(1, hello.accepts.length);
  hello.accepts.forEach((format, index) => view.setUint16(2 + 2 * index, format));
  body.set(hello.nonce, 2 + 2 * hello.accepts.length);
  return encodeFrame('hello', body);
}

export function parseHello(body: Uint8Array): Hello {
  const [flags, count] = body;
  if (flags !== 0) throw malformed('hello', `flags ${flags ?? 'missing'}, want 0`);
  if (count === undefined || count < 1 || count > MAX_FORMATS) {
    throw malformed('hello', `${count ?? 'no'} formats, want 1 to ${MAX_FORMATS}`);
  }
  const wantBytes = 2 + 2 * count + NONCE_BYTES;
  if (body.length !== wantBytes) throw malformed('hello', `${body.length} bytes, want ${wantBytes}`);
  const view = viewOf(body);
  const accepts = Array.from({ length: count }, (_, index) => view.getUint16(2 + 2 * index));
  if (new Set(accepts).size !== count) throw malformed('hello', 'a format is listed twice');
  if (count > 1 && accepts.includes(FORMAT_NONE)) throw malformed('hello', 'evidence or none, not either');
  return { accepts, nonce: body.slice(2 + 2 * count) };
}

export function encodeEvidence(evidence: Evidence): Uint8Array {
  const body = new Uint8Array(2 + evidence.document.length);
  viewOf(body).setUint16(0, evidence.format);
  body.set(evidence.document, 2);
  return encodeFrame('evidence', body);
}

export function parseEvidence(body: Uint8Array): Evidence {
  if (body.length < 2) throw malformed('evidence', `${body.length} bytes, want a format`);
  return { format: viewOf(body).getUint16(0), document: body.subarray(2) };
}

export function encodeReady(): Uint8Array {
  return encodeFrame('ready', new Uint8Array(0));
}

export function encodeAlert(alert: Alert): Uint8Array {
  return encodeFrame('alert', Uint8Array.of(ALERT[alert]));
}

/** The peer's alert, or undefined for a code this version does not know: that is no reason to go on. */
export function parseAlert(body: Uint8Array): Alert | undefined {
  if (body.length !== 1) throw malformed('alert', `${body.length} bytes, want 1`);
  return ALERT_NAMES.get(body[0]);
}

const FRAME_KINDS: ReadonlyMap<number, FrameKind> = invert(FRAME);
const ALERT_NAMES: ReadonlyMap<number | undefined, Alert> = invert(ALERT);

function encodeFrame(kind: FrameKind, body: Uint8Array): Uint8Array {
  if (body.length > BODY_LIMIT[kind]) throw new RangeError(`encoding ${kind}: ${body.length} bytes`);
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
