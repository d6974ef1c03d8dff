import { errorFromAlert } from './alerts.ts';
import { bindingsOf, transcriptHash, type Bindings, type Role, type Session } from './binding.ts';
import { AtlsError } from './errors.ts';
import {
  encodeEvidence,
  encodeHello,
  encodeReady,
  FORMAT_NONE,
  FRAME,
  HEADER_BYTES,
  parseAlert,
  parseEvidence,
  parseHeader,
  parseHello,
  type Evidence,
  type FrameKind,
} from './wire.ts';

/** The inputs of one handshake. */
export interface HandshakeOptions {
  readonly role: Role;
  readonly session: Session;
  /** 32 fresh random bytes. */
  readonly nonce: Uint8Array;
  /** Formats of evidence that this end can show; `[FORMAT_NONE]` if it shows no evidence. */
  readonly shows: readonly number[];
  /** Formats that this end accepts, best first; `[FORMAT_NONE]` if it requires no evidence. */
  readonly accepts: readonly number[];
}

/** One step that the handshake asks its driver to perform. The driver answers with bytes. */
export type HandshakeStep =
  /** Read exactly that many bytes (possibly 0) from the peer. Bytes after READY belong to the application. */
  | { readonly kind: 'read'; readonly sizeBytes: number }
  /** Write without waiting. All writes must have finished before the application gets the connection. */
  | { readonly kind: 'send'; readonly bytes: Uint8Array }
  /** Create evidence over `binding`. The peer must be silent meanwhile (`rejectUnexpectedBytes()`). */
  | ({ readonly kind: 'issue'; readonly format: number } & EvidenceBinding)
  /** Verify the peer's evidence over `binding`, or throw. The peer must be silent meanwhile. */
  | { readonly kind: 'validate'; readonly evidence: Evidence; readonly binding: Uint8Array };

/** The values to which evidence is bound. */
export interface EvidenceBinding {
  /** 64 bytes: the SHA-512 of `statement`. */
  readonly binding: Uint8Array;
  readonly statement: Uint8Array;
}

/** A coroutine that yields the steps of a handshake. */
export type HandshakeSteps<Result = void> = Generator<HandshakeStep, Result, Uint8Array>;

/** The result of the HELLO frames, which is the same at both ends. */
export interface NegotiatedHandshake {
  readonly ownFormat: number;
  readonly bindings: Bindings;
}

/**
 * The aTLS/1 handshake as a pure coroutine, without socket, clock and randomness. It returns when both ends have accepted
 * each other, and throws an `AtlsError` at the first violation.
 *
 *     client                                   server
 *     HELLO ─────────────────────────────────▶           both at once
 *           ◀───────────────────────────────── HELLO
 *     EVIDENCE ──────────────────────────────▶ validates first: an untrusted peer cannot cause a quote
 *     validates ◀────────────────────── EVIDENCE, READY
 *     READY, first application byte ─────────▶
 */
export function* handshake(options: HandshakeOptions): HandshakeSteps {
  yield* exchangeEvidence(options, yield* exchangeHellos(options));
}

/**
 * The second half: evidence in both directions. A separate function, because the wait for HELLO has a shorter timeout.
 */
export function exchangeEvidence(options: HandshakeOptions, agreed: NegotiatedHandshake): HandshakeSteps {
  return options.role === 'client' ? attestAsClient(options, agreed) : attestAsServer(options, agreed);
}

function* attestAsClient(
  { accepts }: HandshakeOptions,
  { ownFormat, bindings }: NegotiatedHandshake,
): HandshakeSteps {
  yield* send(encodeEvidence(yield* issue(ownFormat, ownBound('client', bindings))));
  const evidence = yield* receiveEvidence(accepts);
  yield* receive('ready');
  yield* validate(evidence, bindings.server);
  yield* send(encodeReady());
}

function* attestAsServer(
  { accepts }: HandshakeOptions,
  { ownFormat, bindings }: NegotiatedHandshake,
): HandshakeSteps {
  yield* validate(yield* receiveEvidence(accepts), bindings.client);
  const evidence = encodeEvidence(yield* issue(ownFormat, ownBound('server', bindings)));
  yield* send(Buffer.concat([evidence, encodeReady()]));
  yield* receive('ready');
}

/** The first half: the HELLO frames of both ends. */
export function* exchangeHellos({
  role,
  session,
  nonce,
  shows,
  accepts,
}: HandshakeOptions): HandshakeSteps<NegotiatedHandshake> {
  const ownFrame = encodeHello({ accepts, nonce });
  yield* send(ownFrame);
  const { header, body } = yield* receive('hello');
  const peerFrame = Buffer.concat([header, body]);
  const hello = parseHello(body);
  if (Buffer.compare(hello.nonce, nonce) === 0) {
    throw new AtlsError('atls-reflection', 'reading hello: the peer sent our own nonce');
  }
  // The peer verifies our evidence, so its order of preference decides. The transcript covers the lists of both ends,
  // so that a relay cannot shorten them.
  const ownFormat = hello.accepts.find((format) => shows.includes(format));
  if (ownFormat === undefined) {
    const lists = `the peer accepts formats [${hello.accepts.join(' ')}], this end shows [${shows.join(' ')}]`;
    throw new AtlsError('atls-no-common-format', `choosing an attestation variant: ${lists}`);
  }
  const transcript =
    role === 'client' ? transcriptHash(ownFrame, peerFrame) : transcriptHash(peerFrame, ownFrame);
  return { ownFormat, bindings: bindingsOf(session, transcript) };
}

function* receiveEvidence(accepts: readonly number[]): HandshakeSteps<Evidence> {
  const { body } = yield* receive('evidence');
  const evidence = parseEvidence(body);
  if (!accepts.includes(evidence.format)) {
    throw new AtlsError(
      'atls-evidence-format',
      `reading evidence: format ${evidence.format} is not accepted`,
    );
  }
  return evidence;
}

function ownBound(role: Role, bindings: Bindings): EvidenceBinding {
  return { binding: bindings[role], statement: bindings.statements[role] };
}

function* issue(format: number, bound: EvidenceBinding): HandshakeSteps<Evidence> {
  if (format === FORMAT_NONE) return { format, document: new Uint8Array(0) };
  return { format, document: yield { kind: 'issue', format, ...bound } };
}

function* validate(evidence: Evidence, binding: Uint8Array): HandshakeSteps {
  if (evidence.format !== FORMAT_NONE) {
    yield { kind: 'validate', evidence, binding };
  } else if (evidence.document.length > 0) {
    throw new AtlsError('atls-frame-malformed', 'reading evidence: not empty, although it has format "none"');
  }
}

function* send(bytes: Uint8Array): HandshakeSteps {
  yield { kind: 'send', bytes };
}

/** Receives the expected frame. The peer may send an alert instead at any time, which ends the handshake. */
function* receive(
  expected: FrameKind,
): HandshakeSteps<{ readonly header: Uint8Array; readonly body: Uint8Array }> {
  const header = yield { kind: 'read', sizeBytes: HEADER_BYTES };
  const { kind, bodyBytes } = parseHeader(header);
  if (kind !== expected && kind !== 'alert') {
    throw new AtlsError('atls-frame-order', `waiting for ${expected}: received ${kind}`);
  }
  const body = yield { kind: 'read', sizeBytes: bodyBytes };
  if (kind === 'alert') throw errorFromAlert(parseAlert(body));
  return { header, body };
}

/**
 * While this end issues or validates evidence, the peer may send only an alert. Reads the bytes that the peer sent in
 * this time and throws the alert or a refusal. Never returns.
 */
export function* rejectUnexpectedBytes(): HandshakeSteps<never> {
  const type = (yield { kind: 'read', sizeBytes: 1 })[0];
  if (type !== FRAME.alert) {
    throw new AtlsError('atls-early-data', 'issuing or validating evidence: the peer sent unexpected bytes');
  }
  const rest = yield { kind: 'read', sizeBytes: HEADER_BYTES - 1 };
  const { bodyBytes } = parseHeader(Buffer.from([type, ...rest]));
  throw errorFromAlert(parseAlert(yield { kind: 'read', sizeBytes: bodyBytes }));
}
